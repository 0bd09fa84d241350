#pragma once
// A claim, the node's devices and what is prepared already → what the claim gets: for each request a part of one GPU,
// with the limits that its processes have there. It is the last check before a container starts: the scheduler may
// hand a device out again before the node has taken it back, so the sum of a GPU and "one claim at a time" are checked
// here against what is prepared, and not against the state of the API server. It makes nothing. Pure.
//
// Shares of one GPU in one request are one part with the sum: a container has one endpoint. A request with several GPUs
// has a part for each, and one endpoint for all of them, which one MPS daemon must serve (`dra.split: span`). Requests
// of one claim are parts of their own, for they can be of different containers.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dra/claim.h"
#include "dra/dra_devices.h"
#include "plan/plan.h"

namespace tranche::dra {

// Of one allocation result: what its answer to kubelet names.
struct PreparedDevice {
  std::string pool;
  std::string device;
  std::string share_id;
  friend bool operator==(const PreparedDevice&, const PreparedDevice&) = default;
};

// What containers with one request get of one GPU.
struct Part {
  std::string request;
  std::string gpu_uuid;  // or that of a MIG device; of one that is still to be made, the GPU's
  Kind kind = Kind::kShared;
  std::string mps_pool;      // plan::PlannedPool::id; "" without an endpoint
  std::string grant;         // the request's endpoint in that pool: 16 hexadecimal digits; "" without one
  std::uint32_t cores = 0;   // percent as allocated, of kShared; limits.threads is rounded to trusted SM counts
  plan::ShareLimits limits;  // memory 0, threads 0: not limited (kWhole)
  // Of each process, by the claim's configuration; 0: as `limits`. By variables of the container only: the rest of the
  // part is the claim's own.
  plan::ShareLimits process = {};
  std::vector<PreparedDevice> devices;
  // kMig, of a MIG device that is made for the claim: which, on which GPU, and whether it was begun. Until then an
  // instance at its place is not the claim's.
  std::optional<mig::WholeInstance> instance = {};
  std::string parent_uuid = {};
  bool begun = false;
  plan::ShareLimits of_each_process() const;
  bool is_made() const { return !instance || gpu_uuid != parent_uuid; }
  bool owns_its_place() const { return instance && (begun || is_made()); }
  friend bool operator==(const Part&, const Part&) = default;
};

struct PreparedClaim {
  ClaimName name;
  std::string pod;  // Claim::pod
  std::vector<Part> parts;
  std::string pod_uid = {};  // Claim::pod_uid; "": not known, or any pod
  std::string driver = {};   // the name that it was prepared under
  std::string boot = {};     // of the machine, when it was prepared; "": not recorded
  friend bool operator==(const PreparedClaim&, const PreparedClaim&) = default;
};
using PreparedClaims = std::map<std::string, PreparedClaim>;  // by UID

// What the node has for claims now.
struct Offered {
  std::string driver;
  std::vector<Device> devices;
  std::map<std::string, std::string> mps_pools;  // by UUID of the GPU
  config::SmRounding rounding = config::SmRounding::kUp;
  // By UUID of the GPU: who holds slots of the device plugin there, from before a change of the configuration.
  std::map<std::string, std::string> slots_held;
  bool slots_known = true;       // false: kubelet has not reported yet who holds slots
  bool partitions_known = true;  // false: devices may lack those that are made on demand (Partitionable::known)
};

// The same claim and the same devices give the same parts. A claim that is in `prepared` under its UID gives what is
// there, whatever is offered now.
// Errors: kConflict (a GPU is held, or has not enough left: it may pass when the other claim is unprepared), kNotFound
// (the device is gone), kUnavailable (nothing serves the GPU yet), kInvalid (the claim asks for what cannot be).
// A MIG device that is made on demand is not made here: its part has the GPU's UUID, and is_made() is false.
Result<PreparedClaim> prepare(const Claim& claim, const Offered& offered, const PreparedClaims& prepared);

// "<uid>-<request>-<device>" and the share: as the claim's CDI specification names what one result gives.
std::string cdi_device_name(const ClaimName& claim, const Part& part, const PreparedDevice& device);

// The prepared claims as text for a file that outlives a restart: one line a claim, `<16 hexadecimal digits> <JSON>`,
// where the digits are a hash of the JSON. A line that was damaged is lost alone, and reported. Members of the JSON
// that are not known are passed over, so that an older release reads what a newer one wrote. Fuzzed: parse ∘ render is
// the identity.
std::string render_prepared(const PreparedClaim& claim);  // its line

struct ReadPrepared {
  PreparedClaims claims;
  std::vector<std::string> lost;  // "line 3: the record is damaged", one for each line that was not used
};
ReadPrepared parse_prepared(std::string_view text);

}  // namespace tranche::dra
