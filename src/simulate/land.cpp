#include "simulate/land.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "base/shared_list.h"
#include "base/text.h"
#include "grants/allocate/grant.h"
#include "grants/allocate/prefer.h"

namespace tranche::simulate {
namespace {

using Amounts = std::map<std::string, std::uint64_t>;

constexpr std::string_view kOurDomain = "nvidia.com/";

// What kubelet's device manager keeps in its head of one resource, and how it serves a container. Bookkeeping only;
// what is given and whether it may be is decided by src/grants/allocate. A copy is a node as it was.
class ResourceLedger {
 public:
  ResourceLedger(const plan::Plan& plan, const plan::PlannedResource& resource, const gpu::Inventory& inventory,
                 const config::Config& config)
      : plan_(plan),
        resource_(resource),
        inventory_(inventory),
        config_(config),
        around_(grants::around(plan, resource)) {
    std::vector<std::string> ids;
    for (const auto& device : resource.devices)
      for (auto& id : plan::slot_ids(device)) ids.push_back(std::move(id));
    ids_ = std::move(ids);
  }

  using Slots = std::set<std::string>;

  // Slots that pods hold, without those in `except`, by device.
  std::map<std::string_view, std::uint32_t> taken_on(const Slots& except = {}) const {
    std::map<std::string_view, std::uint32_t> counts;
    for (const auto& slot : taken_)
      if (!except.contains(slot)) ++counts[plan::device_of(slot)];
    return counts;
  }

  // One container's request. Changes nothing. As kubelet's devicesToAllocate: what its pod's init containers left is
  // used first (`reusable`, any of them: its sets have no order), then a preference for the whole request, in which
  // those must be included.
  Result<grants::Grant> serve(std::uint64_t count, const Slots& reusable = {}) const {
    std::vector<std::string> ids;
    for (const auto& id : ids_)
      if (ids.size() < count && reusable.contains(id)) ids.push_back(id);
    if (ids.size() < count) {
      std::vector<std::string_view> available;
      for (const auto& id : ids_)
        if (!taken_.contains(id) || reusable.contains(id)) available.push_back(id);
      if (available.size() < count)
        return fail(Kind::kUnavailable,
                    fmt::format("{} of {} are asked for and {} are free", count, resource_.name, available.size()));
      const std::vector<std::string_view> required(ids.begin(), ids.end());
      TRY(ids, grants::prefer(resource_, inventory_, available, required, static_cast<std::uint32_t>(count),
                              config_.flags.plugin.shared_devices_allocation_policy, around_));
    }
    auto around = around_;
    auto others = taken_on(reusable);
    for (auto& [uuid, room] : around.room) room.held = others[uuid];
    grants::Settings settings;
    settings.flags = config_.flags;
    settings.framework_environment = config_.sharing.framework_environment;
    return grants::allocate(resource_, {}, ids, settings, around);
  }

  // `clients`: of the MPS server of each of these devices one, or several, which a container is that runs.
  void take(const std::vector<std::string>& slots, std::span<const grants::GrantLimit> clients = {}) {
    largest_.reset();
    taken_.insert(slots.begin(), slots.end());
    for (const auto& device : clients) ++around_.room[device.uuid].live;
  }

  // The largest request of one container that would be served now. Only where slots lie decides whether a request is
  // served: all that is free, all that is free on one device, or one.
  std::uint64_t largest() const {
    if (largest_) return *largest_;
    std::set<std::uint64_t, std::greater<>> sizes{free(), 1};
    auto taken = taken_on();
    for (const auto& device : resource_.devices) sizes.insert(device.slots - taken[device.uuid]);
    const auto served =
        std::ranges::find_if(sizes, [&](std::uint64_t size) { return size > 0 && size <= free() && serve(size); });
    return *(largest_ = served == sizes.end() ? 0 : *served);
  }
  // Whether an empty node would serve a request of this size.
  bool fits_empty(std::uint64_t count) const {
    return count > 0 && count <= slots() && ResourceLedger(plan_, resource_, inventory_, config_).serve(count);
  }

  const plan::PlannedResource& resource() const { return resource_; }
  const SharedList<std::string>& ids() const { return ids_; }
  std::uint64_t slots() const { return ids_.size(); }
  std::uint64_t free() const { return ids_.size() - taken_.size(); }

  // What the scheduler has counted for pods that are bound.
  std::uint64_t scheduled = 0;

 private:
  const plan::Plan& plan_;
  const plan::PlannedResource& resource_;
  const gpu::Inventory& inventory_;
  const config::Config& config_;
  SharedList<std::string> ids_;  // in driver order, then by ordinal
  Slots taken_;
  grants::Around around_;
  mutable std::optional<std::uint64_t> largest_;  // until something is taken
};

// What the scheduler counts for a pod: its containers and sidecars together, or an init container with the sidecars
// that were started before it, whichever is more. (Kubernetes, "Sidecar containers: resource sharing within
// containers".)
Amounts scheduled_for(const PodAsk& pod) {
  Amounts together;  // sidecars so far, at last with the main containers
  Amounts most;
  for (const ContainerAsk& container : pod.containers) {
    for (const auto& [resource, count] : container.resources) {
      const std::uint64_t with_sidecars = together[resource] + count;
      if (container.role == Role::kInit)
        most[resource] = std::max(most[resource], with_sidecars);
      else
        together[resource] = with_sidecars;
    }
  }
  for (const auto& [resource, count] : together) most[resource] = std::max(most[resource], count);
  return most;
}

// One CUDA process can talk to one control daemon only.
void note_several_pools(PodOutcome& outcome) {
  std::map<std::string, std::set<std::string>> pools;  // by container
  for (const Holding& holding : outcome.holdings)
    if (!holding.pool.empty()) pools[holding.container].insert(holding.pool);
  for (const auto& [container, names] : pools)
    if (names.size() > 1)
      outcome.notes.push_back(
          fmt::format("container {} holds slots of the pools {}, and one CUDA process can use one of them only; join "
                      "their GPUs with split: span",
                      container, join(names, " and ", std::identity())));
}

class Node {
 public:
  Node(const plan::Plan& plan, const gpu::Inventory& inventory, const config::Config& config)
      : for_claims_(!plan.for_claims.empty()) {
    for (const auto& resource : plan.resources)
      if (!resource.devices.empty()) ledgers_.try_emplace(resource.name, plan, resource, inventory, config);
  }

  PodOutcome place(const PodAsk& pod) {
    PodOutcome outcome;
    outcome.pod_namespace = pod.pod_namespace;
    outcome.name = pod.name;
    outcome.claims = pod.claims;
    Amounts asked = scheduled_for(pod);
    std::erase_if(asked, [&](const auto& entry) { return !is_ours(entry.first); });
    look_for_unknown(asked, outcome);
    if (outcome.fate == Fate::kLands) count(asked, outcome);
    if (outcome.fate == Fate::kLands) admit(pod, outcome);
    if (outcome.fate != Fate::kLands) return outcome;
    for (const auto& [resource, count] : asked) ledgers_.at(resource).scheduled += count;
    if (!pod.claims.empty()) {
      outcome.fate = Fate::kUnpredicted;
      outcome.why.push_back(fmt::format("uses the {} {}: decided by kube-scheduler, not predicted",
                                        pod.claims.size() == 1 ? "claim" : "claims", join(pod.claims, ", ")));
    }
    return outcome;
  }

  // What place() has returned for the pod; one that waits here may go elsewhere instead.
  void keep(const PodAsk& pod, PodOutcome outcome) {
    if (outcome.fate != Fate::kLands && outcome.fate != Fate::kUnpredicted)
      for (const ContainerAsk& container : pod.containers)
        for (const auto& [resource, count] : container.resources) missed_[resource].insert(count);
    simulation.pods.push_back(std::move(outcome));
  }

  Simulation result() {
    for (const auto& [name, ledger] : ledgers_) simulation.resources.push_back(left_of(ledger));
    return std::move(simulation);
  }

  bool asks(const PodAsk& pod) const {
    return !pod.claims.empty() || std::ranges::any_of(pod.containers, [&](const ContainerAsk& container) {
      return std::ranges::any_of(container.resources, [&](const auto& entry) { return is_ours(entry.first); });
    });
  }

  Simulation simulation;

 private:
  // Other plugins of NVIDIA's have names in the domain too ("nvidia.com/hostdev"): they are ignored.
  bool is_ours(const std::string& resource) const {
    if (ledgers_.contains(resource)) return true;
    if (!resource.starts_with(kOurDomain)) return false;
    const std::string_view word = std::string_view(resource).substr(kOurDomain.size());
    if (word.starts_with("gpu") || word.starts_with("mig-")) return true;
    return std::ranges::any_of(ledgers_, [&](const auto& entry) {
      const auto& [name, ledger] = entry;
      return ledger.resource().original_name == resource ||
             (name.starts_with(kOurDomain) &&
              !did_you_mean(word, {std::string_view(name).substr(kOurDomain.size())}).empty());
    });
  }

  using Reusable = std::map<std::string, ResourceLedger::Slots>;  // what a pod's init containers left, by resource

  void look_for_unknown(const Amounts& asked, PodOutcome& outcome) const {
    for (const auto& [resource, count] : asked) {
      if (ledgers_.contains(resource)) continue;
      outcome.fate = for_claims_ ? Fate::kUnpredicted : Fate::kUnknown;
      outcome.lacks.push_back({resource, count, 0, 0});
      outcome.why.push_back(
          for_claims_
              ? fmt::format("requests {} of {}, which the device plugin does not advertise; a DeviceClass can map it "
                            "to a claim: decided by kube-scheduler, not predicted",
                            count, resource)
              : fmt::format("requests {} of {}, of which the node has none; {}", count, resource,
                            other_name(resource)));
    }
  }

  void count(const Amounts& asked, PodOutcome& outcome) const {
    for (const auto& [resource, count] : asked) {
      const ResourceLedger& ledger = ledgers_.at(resource);
      const std::uint64_t free = ledger.slots() - std::min(ledger.slots(), ledger.scheduled);
      if (count <= free) continue;
      outcome.fate = Fate::kWaits;
      outcome.lacks.push_back({resource, count, free, ledger.largest()});
      outcome.why.push_back(
          count > ledger.slots()
              ? fmt::format("requests {} of {}, and the node has {} in all", count, resource, ledger.slots())
              : fmt::format("requests {} of {}, of which {} of {} are free", count, resource, free, ledger.slots()));
    }
  }

  // The pod as a whole: what one of its containers is refused, none of them gets.
  void admit(const PodAsk& pod, PodOutcome& outcome) {
    auto before = ledgers_;
    Reusable reusable;
    for (const ContainerAsk& container : pod.containers) {
      const auto done = serve(container, reusable, outcome);
      if (done) continue;
      outcome.fate = Fate::kRefused;
      outcome.why.push_back(pod.containers.size() > 1 ? fmt::format("{}: {}", container.name, done.error().what)
                                                      : done.error().what);
      outcome.holdings.clear();
      ledgers_ = std::move(before);
      return;
    }
    note_several_pools(outcome);
  }

  Status serve(const ContainerAsk& container, Reusable& left, PodOutcome& outcome) {
    for (const auto& [resource, count] : container.resources) {
      if (!is_ours(resource)) continue;
      ResourceLedger& ledger = ledgers_.at(resource);
      auto& reusable = left[resource];
      auto given = ledger.serve(count, reusable);
      if (!given) {
        outcome.lacks.push_back({resource, count, ledger.free(), ledger.largest()});
        return std::unexpected(std::move(given).error());
      }
      const bool runs = container.role != Role::kInit;
      ledger.take(given->slots, runs ? std::span(given->devices) : std::span<grants::GrantLimit>());
      for (const auto& slot : given->slots) runs ? void(reusable.erase(slot)) : void(reusable.insert(slot));
      Holding holding{container.name, container.role, resource, given->pool, given->slots, {}};
      for (const auto& limit : given->devices) {
        const auto device = std::ranges::find(ledger.resource().devices, limit.uuid, &plan::PlannedDevice::uuid);
        holding.devices.push_back({limit.uuid, device->index, limit.slots, limit.limits});
      }
      outcome.holdings.push_back(std::move(holding));
    }
    return {};
  }

  // What the node calls what was asked for by a name that it does not have.
  std::string other_name(const std::string& resource) const {
    std::vector<std::string> renamed;
    std::vector<std::string_view> names;
    for (const auto& [name, ledger] : ledgers_) {
      if (ledger.resource().original_name == resource) renamed.push_back(name);
      names.push_back(name);
    }
    if (names.empty()) return "it has no devices at all";
    if (!renamed.empty()) return "it calls them " + join(renamed, ", ");
    const std::string all = join(names, ", ", std::identity());
    const std::string meant = did_you_mean(resource, names);
    return meant.empty() ? "it has " + all : "did you mean " + meant + "? It has " + all;
  }

  ResourceLeft left_of(const ResourceLedger& ledger) {
    ResourceLeft left{ledger.resource().name, ledger.slots(), ledger.free(), ledger.largest(), 0, 0, {}};
    const auto& missed = missed_[left.resource];
    const auto stranded = std::ranges::find_if(missed, [&](std::uint64_t request) {  // from the smallest
      return request <= left.free && !ledger.serve(request) && ledger.fits_empty(request);
    });
    if (stranded != missed.end()) std::tie(left.stranded, left.stranded_request) = std::tie(left.free, *stranded);
    auto taken = ledger.taken_on();
    for (const auto& device : ledger.resource().devices) left.devices.push_back({device, taken[device.uuid]});
    for (const PodOutcome& outcome : simulation.pods) {
      for (const Holding& holding : outcome.holdings) {
        if (holding.resource != left.resource || holding.role == Role::kInit) continue;
        for (const OnDevice& on : holding.devices) {
          const auto device = std::ranges::find(left.devices, on.uuid, &DeviceLeft::uuid);
          device->promised_memory = device->promised_memory + on.limits.memory;
          device->promised_sms += on.limits.sms;
        }
      }
    }
    return left;
  }

  std::map<std::string, ResourceLedger> ledgers_;          // of resources that have devices
  std::map<std::string, std::set<std::uint64_t>> missed_;  // requests of containers whose pods did not land
  bool for_claims_ = false;                                // the node offers devices to claims
};

// What `ask` has of a node with one resource, whose slots are held as the offer states.
auto on_held_node(const Offer& offer, auto ask) {
  plan::Plan plan;
  plan.resources = {offer.resource};
  const gpu::Inventory inventory;  // only for which GPUs are close to each other
  config::Config config;
  config.flags.plugin.shared_devices_allocation_policy = offer.policy;
  ResourceLedger ledger(plan, plan.resources.front(), inventory, config);
  std::vector<std::string> taken;
  for (const auto& id : ledger.ids())
    if (offer.taken.contains(id)) taken.push_back(id);
  ledger.take(taken);
  return ask(ledger);
}

}  // namespace

std::uint64_t Simulation::count(Fate fate) const {
  return static_cast<std::uint64_t>(std::ranges::count(pods, fate, &PodOutcome::fate));
}

std::vector<Simulation> land_on_nodes(std::size_t count, const plan::Plan& plan, const gpu::Inventory& inventory,
                                      const config::Config& config, const std::vector<PodAsk>& pods,
                                      std::string_view node_name) {
  std::vector<Node> nodes(count, Node(plan, inventory, config));
  for (const PodAsk& pod : pods) {
    if (!nodes.front().asks(pod) || pod.over) {
      ++nodes.front().simulation.others;
    } else if (!node_name.empty() && !pod.node_name.empty() && pod.node_name != node_name) {
      ++nodes.front().simulation.elsewhere;
    } else {
      for (Node& node : nodes) {
        auto outcome = node.place(pod);
        if (outcome.fate == Fate::kWaits && &node != &nodes.back()) continue;
        node.keep(pod, std::move(outcome));
        break;
      }
    }
  }
  std::vector<Simulation> all;
  for (Node& node : nodes) all.push_back(node.result());
  return all;
}

std::string needed_text(const std::vector<Simulation>& nodes) {
  const auto placed = [](const Simulation& node) { return node.count(Fate::kLands) + node.count(Fate::kUnpredicted); };
  const auto used = std::ranges::count_if(nodes, [&](const Simulation& node) { return placed(node) > 0; });
  if (!std::ranges::all_of(nodes, [&](const Simulation& node) { return placed(node) == node.pods.size(); }))
    return fmt::format("not every pod lands on {} nodes", nodes.size());
  const char* pods = std::ranges::all_of(nodes, &Simulation::all_land) ? "every pod" : "every predicted pod";
  if (static_cast<std::size_t>(used) == nodes.size())
    return fmt::format("{} lands; {} nodes are needed", pods, nodes.size());
  return fmt::format("{} lands on {} of {} nodes", pods, used, nodes.size());
}

std::uint64_t largest_that_fits(const Offer& offer) {
  return on_held_node(offer, [](const ResourceLedger& ledger) { return ledger.largest(); });
}

More more_that_fit(const Offer& offer, std::uint64_t slots_of_each) {
  return on_held_node(offer, [slots_of_each](ResourceLedger& ledger) {
    More more{.possible = ledger.fits_empty(slots_of_each)};
    while (more.possible && ledger.free() >= slots_of_each) {
      const auto served = ledger.serve(slots_of_each);
      if (!served) break;
      // Where a slot lies does not matter to a request for one.
      if (slots_of_each == 1) return More{ledger.free(), true};
      ledger.take(served->slots);
      ++more.containers;
    }
    return more;
  });
}

}  // namespace tranche::simulate
