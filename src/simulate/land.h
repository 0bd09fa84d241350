#pragma once
// Simulates pods on a node that advertises a plan: the scheduler's count, then kubelet's device manager, then the
// node's own allocation (grants/allocate/prefer.h, grants/allocate/grant.h). The node is empty and healthy, and pods
// arrive in the order given. Claims are not simulated: kube-scheduler decides where they get devices. CPU, taints,
// affinity and kubelet's NUMA policies are ignored. Pure; equal inputs give equal outcomes.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"
#include "plan/table.h"
#include "simulate/pods.h"

namespace tranche::simulate {

enum class Fate {
  kLands,
  kWaits,        // the scheduler counts too few: Pending, until others end
  kRefused,      // enough in number, but Allocate refuses what kubelet can give: UnexpectedAdmissionError
  kUnknown,      // the node has no devices of that name: Pending, whatever ends
  kUnpredicted,  // it uses claims, for which kube-scheduler decides; its slots fit
};
ENUM_NAMES(Fate::kUnpredicted, "lands", "waits", "refused", "unknown", "unpredicted")

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

// What a pod that does not land asked for, and what there was when it came.
struct Lack {
  std::string resource;
  std::uint64_t asked = 0;
  std::uint64_t free = 0;
  std::uint64_t largest = 0;  // the largest request of one container that would have landed
  friend bool operator==(const Lack&, const Lack&) = default;
};

struct PodOutcome {
  std::string pod_namespace;
  std::string name;
  Fate fate = Fate::kLands;
  // By container in kubelet's order, then by resource; empty unless it lands or is unpredicted.
  std::vector<Holding> holdings;
  std::vector<Lack> lacks;               // by resource; empty when it lands
  std::vector<std::string> why;          // a sentence each; empty when it lands
  std::vector<std::string> notes;        // what is odd about it although it lands
  std::vector<std::string> claims = {};  // as the pod names them

  std::string full_name() const { return pod_namespace + "/" + name; }
  friend bool operator==(const PodOutcome&, const PodOutcome&) = default;
};

struct DeviceLeft : plan::PlannedDevice {
  std::uint32_t taken = 0;     // slots
  Bytes promised_memory = {};  // the sum of the limits of what runs there; init containers are over by then
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

struct Simulation {
  std::vector<PodOutcome> pods;         // those that ask for devices of NVIDIA's, in the order given
  std::vector<ResourceLeft> resources;  // as in the plan, without those that have no devices
  std::uint64_t others = 0;             // pods that ask for nothing here, or are over
  std::uint64_t elsewhere = 0;          // pods that are bound to another node

  std::uint64_t count(Fate fate) const;
  bool all_land() const { return count(Fate::kLands) == pods.size(); }
  friend bool operator==(const Simulation&, const Simulation&) = default;
};

// As text for a terminal: which pods land where, what keeps the others away, what is left on every device and what is
// stranded. And as JSON (docs/reference/plan.md).
std::string render_table(const Simulation& simulation, const plan::TableOptions& options);
void to_json(nlohmann::ordered_json& json, const Simulation& simulation);
void to_json(nlohmann::ordered_json& json, const UnknownObject& object);

// `node_name`: pods that are bound to another node are left out; "" = none are.
Simulation land(const plan::Plan& plan, const gpu::Inventory& inventory, const config::Config& config,
                const std::vector<PodAsk>& pods, std::string_view node_name = {});

// The same over several nodes that are equal and empty, one result for each. A pod goes to the first node whose free
// slots are enough by number, which the scheduler counts; one that waits everywhere is in the last. The scheduler can
// choose a different node, so this is the fewest nodes, not a prediction.
std::vector<Simulation> land_on_nodes(std::size_t nodes, const plan::Plan& plan, const gpu::Inventory& inventory,
                                      const config::Config& config, const std::vector<PodAsk>& pods);
std::string needed_text(const std::vector<Simulation>& nodes);  // "every pod lands on 1 of 2 nodes"

// How many more containers of one size fit on a node that is partly held: the device manager's preference and this
// product's allocation, container after container, until one is refused.

// One resource of a node.
struct Offer {
  plan::PlannedResource resource;
  std::set<std::string> taken;  // slots that are held or unhealthy
  config::AllocationPolicy policy = config::AllocationPolicy::kDistributed;
};

struct More {
  std::uint64_t containers = 0;
  bool possible = false;  // one would fit on an empty node
  friend bool operator==(const More&, const More&) = default;
};
std::uint64_t largest_that_fits(const Offer& offer);  // slots of one container
More more_that_fit(const Offer& offer, std::uint64_t slots_of_each);

}  // namespace tranche::simulate
