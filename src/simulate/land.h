#pragma once
// Simulates pods on a node that advertises a plan: the scheduler's count, then kubelet's device manager, then the
// node's own allocation (grants/allocate/prefer.h, grants/allocate/grant.h). The node is empty and healthy, and pods
// arrive in the order given. Claims are not simulated: kube-scheduler decides where they get devices. CPU, taints,
// affinity and kubelet's NUMA policies are ignored. Pure; equal inputs give equal outcomes.
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"
#include "config/model.h"
#include "gpu/inventory/inventory.h"
#include "plan/plan.h"
#include "plan/table.h"

namespace tranche::simulate {

// Pods as far as their devices are concerned: which containers ask for how many of which extended resource, and the
// names of the pod's claims. Read from what people write (Pods, Lists, the workloads that make pods) and from what an
// API server lists. Fuzzed.

enum class Role {
  kInit,     // runs to its end before the next begins; its devices are used again
  kSidecar,  // an init container with restartPolicy: Always; keeps its devices
  kMain,
};
ENUM_NAMES(Role::kMain, "init", "sidecar", "main")

struct ContainerAsk {
  std::string name;
  Role role = Role::kMain;
  std::map<std::string, std::uint64_t> resources;  // extended ones, never 0
  friend bool operator==(const ContainerAsk&, const ContainerAsk&) = default;
};

struct PodAsk {
  std::string pod_namespace = "default";
  std::string name;
  std::string node_name = {};                 // the node that it is bound to; "" = none
  std::string created = {};                   // creationTimestamp as written, which sorts by time; "" in manifests
  bool over = false;                          // it has succeeded or failed: it holds nothing
  std::vector<ContainerAsk> containers = {};  // as kubelet serves them: init containers and sidecars come first
  std::vector<std::string> claims = {};       // names of its resourceClaims
  Place place = {};

  std::string full_name() const { return pod_namespace + "/" + name; }
  friend bool operator==(const PodAsk&, const PodAsk&) = default;
};

// An object of a kind that is not Kubernetes' own, or that resembles a workload's: it may make pods.
struct UnknownObject {
  std::string api_version;
  std::string kind;
  std::string object_namespace;
  std::string name;
  friend bool operator==(const UnknownObject&, const UnknownObject&) = default;
};

struct PodsRead {
  std::vector<PodAsk> pods;            // in file order, the replicas of a workload after one another
  std::vector<UnknownObject> unknown;  // in file order, without those whose pods are in the text; each is a warning
  std::vector<Problem> problems;
};

inline constexpr std::size_t kLargestPodsFile = std::size_t{32} << 20;
inline constexpr std::uint64_t kMostPods = 10'000;

// Several documents and Lists are taken apart. A workload becomes its replicas, named <workload>-0, -1 …; one whose
// own pods (or replica sets, or jobs) are in the text too adds nothing, because those count. Kubernetes' own kinds
// without pods, claims among them, are skipped. A text without pods and unknown objects is a Problem.
PodsRead read_pods(std::string_view text, std::string_view source);

// One page of an API server's list, where an empty one is not a Problem.
PodsRead read_pod_page(std::string_view body, std::string_view source);

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

// On several nodes that are equal and empty, one result for each. A pod goes to the first node whose free slots are
// enough by number, which the scheduler counts; one that waits everywhere is in the last. The scheduler can choose a
// different node, so this is the fewest nodes, not a prediction. `node_name`: pods that are bound to another node are
// left out; "" = none are.
std::vector<Simulation> land_on_nodes(std::size_t count, const plan::Plan& plan, const gpu::Inventory& inventory,
                                      const config::Config& config, const std::vector<PodAsk>& pods,
                                      std::string_view node_name = {});
// The same on one node.
inline Simulation land(const plan::Plan& plan, const gpu::Inventory& inventory, const config::Config& config,
                       const std::vector<PodAsk>& pods, std::string_view node_name = {}) {
  return std::move(land_on_nodes(1, plan, inventory, config, pods, node_name).front());
}
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

// What a different configuration would change: two plans of the same node, and where the same pods land on each.
// Whatever the plan's document (plan/plan.h) shows differently is a difference, also fields that this file has no
// word for.

// One thing that is not as before. `before` or `after` is empty when it is not there at all.
struct Difference {
  std::string what;                  // "nvidia.com/gpu", "pool gpu-3f2a1b4c", "label nvidia.com/gpu.replicas", "note"
  std::vector<std::string> devices;  // by index, when it is of devices of a resource
  std::string field;                 // "slots", "memory of a slot (MiB)"; "" when it came or went as a whole
  std::string before;
  std::string after;
  friend bool operator==(const Difference&, const Difference&) = default;
};

struct Side {
  const plan::Plan& plan;
  const std::map<std::string, std::string>& labels;
};

std::vector<Difference> compare(const Side& before, const Side& after);

// Pods that land elsewhere, get more or less, or no longer (or only now) land; `what` is "pod default/a".
std::vector<Difference> compare(const Simulation& before, const Simulation& after);

// As text for a terminal, and as JSON (docs/reference/plan.md); `before` and `after` name the configurations.
std::string render_table(const std::vector<Difference>& differences, const std::string& before,
                         const std::string& after, const plan::TableOptions& options);
void to_json(nlohmann::ordered_json& json, const Difference& difference);

// "GPU 0: 10 slots, 71885 MiB, 66 SMs", "waits": of one pod, in one line.
std::string summary(const PodOutcome& outcome);

}  // namespace tranche::simulate
