#pragma once
// Where pods would land on a node that advertises a plan: the scheduler's count and its allocation of claims, then
// kubelet's device manager, then the very answers of this node (grants/allocate/prefer.h, grants/allocate/grant.h,
// dra/prepare.h). Nothing of the node is asked: it is taken as empty and healthy, and pods come one after another in
// the order given. What else keeps a pod away (CPU, taints, affinity, NUMA policies of kubelet's) is not looked at.
// Pure; equal inputs give equal outcomes.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"
#include "simulate/pods.h"

namespace tranche::simulate {

enum class Fate {
  kLands,
  kWaits,  // the scheduler counts too few: Pending, until others end
  // There are enough in number, but Allocate refuses what kubelet can give: UnexpectedAdmissionError. Or the scheduler
  // grants a claim that the node refuses to prepare: the pod stays in ContainerCreating.
  kRefused,
  kUnknown,  // the node has no devices of that name: Pending, whatever ends
};
std::string_view to_string(Fate fate);  // "lands", "waits", "refused", "unknown"

struct OnDevice {
  std::string uuid;
  std::string index;
  std::uint32_t slots = 0;
  plan::ShareLimits limits;  // of these slots together
  friend bool operator==(const OnDevice&, const OnDevice&) = default;
};

// What one container holds of one resource.
struct Holding {
  std::string container;
  Role role = Role::kMain;
  std::string resource;
  std::string pool;                // "" without MPS
  std::vector<std::string> slots;  // ids, sorted
  std::vector<OnDevice> devices;   // in driver order
  friend bool operator==(const Holding&, const Holding&) = default;
};

// One device, or one share of it, that a claim of the pod gets.
struct ClaimGrant {
  std::string claim;    // as the pod names it; "extended-resources": the scheduler makes the claim
  std::string object;   // "namespace/name" of a ResourceClaim; "": it is made for the pod
  std::string request;  // "gpu", "gpu/first"
  std::string device_class;
  std::string device;  // "gpu-0-shared"
  std::string uuid;    // of the GPU
  std::string index;
  std::map<std::string, std::uint64_t> asked;     // of each capacity, as written
  std::map<std::string, std::uint64_t> consumed;  // as the scheduler rounds it
  plan::ShareLimits limits;                       // of the request's processes on this GPU
  std::vector<std::string> containers;            // that use it
  friend bool operator==(const ClaimGrant&, const ClaimGrant&) = default;
};

// What a pod that does not land asked for, and what there was when it came.
struct Lack {
  std::string resource;  // or a capacity of shared devices: "memory" (bytes), "cores"
  std::uint64_t asked = 0;
  std::uint64_t free = 0;
  std::uint64_t largest = 0;  // the largest request of one container that would have landed
  friend bool operator==(const Lack&, const Lack&) = default;
};

struct PodOutcome {
  std::string pod_namespace;
  std::string name;
  Fate fate = Fate::kLands;
  std::vector<Holding> holdings;        // by container in kubelet's order, then by resource; empty unless it lands
  std::vector<Lack> lacks;              // by resource; empty when it lands
  std::vector<std::string> why;         // a sentence each; empty when it lands
  std::vector<std::string> notes;       // what is odd about it although it lands
  std::vector<ClaimGrant> claims = {};  // by claim, then by request; empty unless it lands

  std::string full_name() const { return pod_namespace + "/" + name; }
  friend bool operator==(const PodOutcome&, const PodOutcome&) = default;
};

struct DeviceLeft {
  std::string uuid;
  std::string index;
  std::uint32_t slots = 0;
  std::uint32_t taken = 0;
  Bytes memory;           // of the device
  Bytes promised_memory;  // the sum of the limits of what runs there; init containers are over by then
  std::uint32_t sms = 0;
  std::uint64_t promised_sms = 0;
  friend bool operator==(const DeviceLeft&, const DeviceLeft&) = default;
};

struct ResourceLeft {
  std::string resource;
  std::uint64_t slots = 0;
  std::uint64_t free = 0;
  std::uint64_t largest = 0;  // the largest request of one container that still lands
  // Free slots that are enough in number for a request that did not land, and would have held it in one piece; and the
  // smallest such request. 0: none are.
  std::uint64_t stranded = 0;
  std::uint64_t stranded_request = 0;
  std::vector<DeviceLeft> devices;
  friend bool operator==(const ResourceLeft&, const ResourceLeft&) = default;
};

// Of one GPU that claims get parts of.
struct ClaimsLeft {
  struct Amount {
    std::uint64_t all = 0, taken = 0;
    friend bool operator==(const Amount&, const Amount&) = default;
  };
  std::string uuid;
  std::string index;
  std::string whole_by;  // the claim that holds all of it
  std::uint32_t shares = 0;
  std::uint32_t partitions = 0;            // MIG devices that are made on demand
  std::map<std::string, Amount> capacity;  // of its shared device, or of all its partitions
  friend bool operator==(const ClaimsLeft&, const ClaimsLeft&) = default;
};

struct Simulation {
  std::vector<PodOutcome> pods;         // those that ask for devices of NVIDIA's, in the order given
  std::vector<ResourceLeft> resources;  // as in the plan, without those that have no devices
  std::vector<ClaimsLeft> for_claims;   // by index; with dra.devices
  std::uint64_t others = 0;             // pods that ask for nothing here, or are over
  std::uint64_t elsewhere = 0;          // pods that are bound to another node

  std::uint64_t count(Fate fate) const;
  bool all_land() const { return count(Fate::kLands) == pods.size(); }
  friend bool operator==(const Simulation&, const Simulation&) = default;
};

// `node_name`: pods that are bound to another node are left out; "" = none are.
Simulation land(const plan::Plan& plan, const inventory::Inventory& inventory, const config::Config& config,
                const std::vector<PodAsk>& pods, std::string_view node_name = {}, const ClaimObjects& objects = {});

}  // namespace tranche::simulate
