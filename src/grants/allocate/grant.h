#pragma once
// One container's request → the Grant it receives: environment, mounts, device nodes, annotations, CDI names, and for
// MPS the limits and the endpoint (the directory that is the container's only way to the control daemon). Pure: the
// caller creates the endpoint before it sends the answer.
//
// A grant's id is a hash of its slot ids. So a replay of an old answer by kubelet, a restart of the agent, and a second
// call with the same ids all name the same endpoint.
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/model.h"
#include "plan/plan.h"

namespace tranche::grants {

struct Mount {
  std::string container_path;
  std::string host_path;
  bool read_only = false;
  friend bool operator==(const Mount&, const Mount&) = default;
};

struct DeviceNode {
  std::string container_path;
  std::string host_path;
  friend bool operator==(const DeviceNode&, const DeviceNode&) = default;
};

// The limits of the grant on one device. A process has one thread percentage for all its devices, so on several it is
// the smallest.
struct GrantLimit {
  std::string uuid;
  std::uint32_t slots = 0;
  plan::ShareLimits limits;
  friend bool operator==(const GrantLimit&, const GrantLimit&) = default;
};

struct Grant {
  std::string id;  // 16 hexadecimal digits
  std::string resource;
  std::vector<std::string> slots;   // sorted
  std::vector<GrantLimit> devices;  // in driver order
  std::string pool;                 // "" without MPS
  std::map<std::string, std::string> envs;
  std::vector<Mount> mounts;
  std::vector<DeviceNode> device_nodes;
  std::map<std::string, std::string> annotations;
  std::vector<std::string> cdi_devices;
  friend bool operator==(const Grant&, const Grant&) = default;
};

// What one container holds of one resource.
struct Held {
  std::string pod_namespace = {};  // with the next two "" while kubelet does not list it
  std::string pod = {};
  std::string container = {};
  std::string resource;
  std::vector<std::string> slots;  // sorted
  friend bool operator==(const Held&, const Held&) = default;
};

std::string grant_id(std::span<const std::string> slots);  // order does not matter

// The paths of MPS state; see docs/reference/paths.md. A grant's endpoint lies under its pool, so that `tranche mps`
// can put a restarted daemon's socket into every endpoint by listing one directory.
struct Paths {
  std::string mps_root = "/run/nvidia/mps";
  std::string pool(const std::string& id) const { return mps_root + "/pools/" + id; }
  std::string pipe(const std::string& pool_id) const {
    return pool(pool_id) + "/pipe";
  }  // CUDA_MPS_PIPE_DIRECTORY of the daemon
  std::string log(const std::string& pool_id) const { return pool(pool_id) + "/log"; }
  std::string endpoints(const std::string& pool_id) const { return pool(pool_id) + "/endpoints"; }
  std::string endpoint(const std::string& pool_id, const std::string& grant) const {
    return endpoints(pool_id) + "/" + grant;
  }
};
// The path of the endpoint in the container.
inline constexpr const char* kEndpointInContainer = "/run/tranche/mps";

struct Settings {
  config::Flags flags;
  Paths paths;
  std::vector<std::string> control_nodes;  // "/dev/nvidiactl" …: those that exist, for passDeviceSpecs
  bool imex_channel = false;               // it is in imex.channelIDs, and its node exists
  // Classes of CDI devices with a spec: "gpu", "imex-channel", "gdrcopy", "gds", "mofed". Once the spec for GPUs
  // exists, answers leave out other classes without a spec. They always name GPUs.
  std::set<std::string> cdi_classes;
  // Whether containers get variables with the limits of their share (allocate.cpp, "frameworks"):
  // sharing.mps.frameworkEnvironment.
  bool framework_environment = true;
};

// What an answer depends on in addition to its resource.
struct Around {
  // Several resources share the pool ("gpu0", "gpu1"), and a container may hold slots of several. kubelet merges their
  // answers key by key in a random order, and does not report that they are for one container. So each key has either
  // the same value in all answers or is present for one device only. Limits are neither, so only the server has them.
  bool pool_is_joined = false;
  struct Room {
    std::uint32_t live = 0;               // grants on the device, without the requested one
    std::uint32_t most = 0;               // clients that its MPS server accepts; 0 = not known
    std::optional<std::uint32_t> held{};  // slots of the device in other grants; nothing: not known
    bool is_full() const { return most > 0 && live >= most; }
  };
  std::map<std::string, Room, std::less<>> room;  // by device; a device that is absent has room
};
// Without the living grants, which a plan does not have.
Around around(const plan::Plan& plan, const plan::PlannedResource& resource);

// Errors (kInvalid, kNotFound, kConflict, kUnavailable): unknown id, duplicate id, unhealthy slot, more than one shared
// slot where that is refused, slots on several GPUs where that is refused, too little memory for a context, a device
// whose MPS server has all its clients. Each is one sentence with the ids and what to request instead.
Result<Grant> allocate(const plan::PlannedResource& resource, const plan::Faults& faults,
                       std::span<const std::string> ids, const Settings& settings, const Around& around = {});

// Devices with limits from another source: those that a request of a claim has by one endpoint (dra/prepare.h).
struct ClaimPart {
  struct Device {
    plan::PlannedDevice planned;
    plan::ShareLimits limits;  // 0 = not limited
  };
  std::string id;  // of the grant
  // Not empty. All in one pool (`planned.pool`), or in none: devices that are only shown (monitoring).
  std::vector<Device> devices;
};
// As allocate() of slots, except that CDI names are always in cdi_devices and never in annotations, because an answer
// about a claim has none.
Grant allocate(const ClaimPart& part, const Settings& settings);

}  // namespace tranche::grants
