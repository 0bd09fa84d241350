#include "simulate/claim_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"

namespace tranche::simulate {
namespace {

dra::Offered offered_by(const plan::Plan& plan, const inventory::Inventory& inventory, const config::Config& config,
                        std::string node) {
  dra::Offered offered;
  offered.driver = config.dra.driver_name;
  offered.pool = std::move(node);
  offered.devices = dra::devices_of(config, inventory, {}, dra::partitionable_by_model(inventory)).list;
  offered.rounding = config.sharing.sm_rounding;
  for (const auto& device : plan.for_claims)
    if (!device.pool.empty()) offered.mps_pools[device.uuid] = device.pool;
  return offered;
}

std::map<std::string, ClassSpec> classes_of(const ClaimObjects& objects, const std::string& driver) {
  auto classes = objects.classes;
  for (auto& [name, spec] : chart_classes(driver)) classes.try_emplace(name, std::move(spec));
  return classes;
}

// "" or what a selector says that the device's driver is.
std::string driver_of(const std::vector<Selector>& selectors) {
  for (const auto& selector : selectors)
    if (selector.terms)
      for (const auto& term : *selector.terms)
        if (term.of == SelectorTerm::Of::kDriver && term.equal && term.value.size() > 2)
          return term.value.substr(1, term.value.size() - 2);
  return {};
}

void add_once(std::vector<std::string>& texts, std::string text) {
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
}

std::string shown(const ClaimLedger::Needed& claim) {
  return "claim " + (claim.object.empty() ? claim.pod_claim : claim.object);
}

}  // namespace

ClaimLedger::ClaimLedger(const plan::Plan& plan, const inventory::Inventory& inventory, const config::Config& config,
                         const ClaimObjects& objects, std::string node_name)
    : objects_(objects),
      classes_(classes_of(objects, config.dra.driver_name)),
      offered_(offered_by(plan, inventory, config, node_name.empty() ? "this-node" : std::move(node_name))),
      published_(published(offered_.devices, {offered_.driver, offered_.pool, {}})),
      allocator_(published_, classes_),
      empty_(published_, classes_) {}

const std::string* ClaimLedger::class_of(const std::string& resource) const {
  const std::pair<const std::string, ClassSpec>* newest = nullptr;
  for (const auto& entry : classes_)
    if (entry.second.extended_resource == resource &&
        (newest == nullptr || newest->second.created < entry.second.created))
      newest = &entry;
  return newest == nullptr ? nullptr : &newest->first;
}

bool ClaimLedger::is_foreign(const DeviceAsk& ask) const {
  const auto found = classes_.find(ask.device_class);
  std::string driver = found == classes_.end() ? "" : driver_of(found->second.selectors);
  if (driver.empty()) driver = driver_of(ask.selectors);
  return !driver.empty() && driver != offered_.driver;
}

std::vector<ClaimLedger::Needed> ClaimLedger::needed_by(const PodAsk& pod, const std::vector<std::string>& mapped,
                                                        PodOutcome& outcome) const {
  std::vector<Needed> all;
  const auto lacking = [&](const PodClaim& claim, const char* kind, const std::string& name) {
    outcome.fate = Fate::kUnknown;
    outcome.why.push_back(
        fmt::format("claim {} names the {} {}, which is not among the objects that were read", claim.name, kind, name));
  };
  for (const PodClaim& claim : pod.claims) {
    const bool own = claim.claim.empty();
    const auto& objects = own ? objects_.templates : objects_.claims;
    const std::string key = pod.pod_namespace + "/" + (own ? claim.from_template : claim.claim);
    const auto found = objects.find(key);
    if (found == objects.end()) {
      lacking(claim, own ? "ResourceClaimTemplate" : "ResourceClaim", key);
      continue;
    }
    const std::string name = own ? pod.name + "-" + claim.name : claim.claim;
    Needed needed{claim.name, own ? "" : key, {pod.pod_namespace, name, hex16(stable_hash(key + "/" + name))},
                  {},         false,          {}};
    auto spec = std::make_shared<ClaimSpec>(found->second);
    std::erase_if(spec->requests, [&](const ClaimRequest& request) {
      return std::ranges::all_of(request.either, [&](const DeviceAsk& ask) { return is_foreign(ask); });
    });
    if (spec->requests.size() < found->second.requests.size())
      add_once(outcome.notes,
               fmt::format("claim {} asks for devices of other drivers too, which are not looked at", claim.name));
    if (const auto held = held_.find(key); !own && held != held_.end()) {
      needed.allocated = true;
      needed.picks = held->second;
    }
    needed.spec = std::move(spec);
    if (!needed.spec->requests.empty()) all.push_back(std::move(needed));
  }
  // As the scheduler writes it: one request for each container and resource.
  auto spec = std::make_shared<ClaimSpec>();
  for (std::size_t c = 0; c < pod.containers.size(); ++c) {
    std::size_t number = 0;
    for (const auto& [resource, count] : pod.containers[c].resources) {
      if (std::ranges::find(mapped, resource) == mapped.end()) continue;
      DeviceAsk ask;
      ask.device_class = *class_of(resource);
      ask.count = count;
      spec->requests.push_back({fmt::format("container-{}-request-{}", c, number++), {std::move(ask)}});
    }
  }
  if (!spec->requests.empty()) {
    const std::string name = pod.name + "-extended-resources";
    all.push_back({"extended-resources",
                   "",
                   {pod.pod_namespace, name, hex16(stable_hash(pod.full_name() + name))},
                   std::move(spec),
                   false,
                   {}});
  }
  return all;
}

// What would be odd about it wherever it is granted.
void ClaimLedger::look_at(const PodAsk& pod, const Needed& claim, PodOutcome& outcome) const {
  bool used = false;
  for (const ContainerAsk& container : pod.containers) {
    for (const ClaimUse& use : container.claims) {
      if (use.name != claim.pod_claim) continue;
      used = true;
      if (!use.request.empty() &&
          std::ranges::find(claim.spec->requests, use.request, &ClaimRequest::name) == claim.spec->requests.end())
        add_once(outcome.notes, fmt::format("container {} uses the request {} of {}, which has none of that name, and "
                                            "gets no device by it",
                                            container.name, in_quotes(use.request), shown(claim)));
    }
  }
  if (!used && claim.pod_claim != "extended-resources")
    add_once(outcome.notes, fmt::format("no container uses {}; it is allocated all the same", shown(claim)));
  for (const ClaimRequest& request : claim.spec->requests) {
    for (const DeviceAsk& ask : request.either) {
      const auto unread = [&](const std::vector<Selector>& selectors, const std::string& of) {
        for (const Selector& selector : selectors)
          if (!selector.terms)
            add_once(outcome.notes, fmt::format("the selector {} of {} is not evaluated here, and is taken as true",
                                                in_quotes(selector.expression), of));
      };
      if (const auto found = classes_.find(ask.device_class); found != classes_.end())
        unread(found->second.selectors, "class " + ask.device_class);
      unread(ask.selectors, fmt::format("{}, request {}", shown(claim), request.name));
      if (classes_.contains(ask.device_class)) continue;
      outcome.fate = Fate::kUnknown;
      outcome.why.push_back(
          fmt::format("{}, request {}: names the class {}, which is neither among the objects that "
                      "were read nor one of the chart's",
                      shown(claim), request.name, ask.device_class));
    }
  }
}

// Which request it is for; and whether an empty node could grant it.
void ClaimLedger::explain(const std::vector<NeededClaim>& claims, PodOutcome& outcome) {
  const auto on_empty = empty_.allocate(claims);
  empty_.release(on_empty.picks);
  outcome.fate = on_empty.found || on_empty.given_up ? Fate::kWaits : Fate::kUnknown;
  for (const NeededClaim& claim : claims) {
    for (const ClaimRequest& request : claim.spec->requests) {
      const ClaimSpec alone{{request}, {}, {}, {}};
      const auto one = allocator_.allocate({{&alone, claim.name, claim.holder}});
      allocator_.release(one.picks);
      if (one.found) continue;
      auto why = allocator_.why_not(claim, request);
      std::ranges::move(why.sentences, std::back_inserter(outcome.why));
      for (const auto& [capacity, shortage] : why.short_of)
        outcome.lacks.push_back({capacity, shortage.asked, shortage.most_left, shortage.most_left});
    }
  }
  if (outcome.why.empty())
    outcome.why.push_back(claims.size() > 1 || claims.front().spec->constraints.empty()
                              ? "each request fits alone, and not all of them together"
                              : "each request fits alone, and not under the claim's constraints");
}

std::vector<ClaimLedger::Needed> ClaimLedger::schedule(const PodAsk& pod, const std::vector<std::string>& mapped,
                                                       PodOutcome& outcome) {
  auto all = needed_by(pod, mapped, outcome);
  if (!all.empty() && published_.devices.empty()) {
    outcome.fate = Fate::kUnknown;
    outcome.why.emplace_back("has claims, and the node offers no device to claims; set dra.devices: all");
  }
  if (outcome.fate == Fate::kLands)
    for (const Needed& claim : all) look_at(pod, claim, outcome);
  if (outcome.fate != Fate::kLands) return {};
  std::vector<NeededClaim> open;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].allocated) continue;
    const bool own = all[i].object.empty();
    open.push_back({all[i].spec.get(), shown(all[i]), own ? "pod " + pod.full_name() : shown(all[i])});
    which.push_back(i);
  }
  if (open.empty()) return all;
  auto answer = allocator_.allocate(open);
  if (answer.given_up) {
    outcome.fate = Fate::kWaits;
    outcome.why.emplace_back("the search for devices was given up; the scheduler's can be too, after 10 seconds");
    return {};
  }
  if (!answer.found) {
    explain(open, outcome);
    return {};
  }
  for (Pick& pick : answer.picks) {
    Needed& claim = all[which[pick.claim]];
    claim.picks.push_back(std::move(pick));
  }
  for (const Needed& claim : all)
    if (!claim.object.empty()) held_[claim.object] = claim.picks;
  return all;
}

void ClaimLedger::release(const std::vector<Needed>& claims) {
  for (const Needed& claim : claims) {
    if (claim.allocated) continue;
    allocator_.release(claim.picks);
    held_.erase(claim.object);
  }
}

dra::Claim ClaimLedger::as_allocated(const PodAsk& pod, const Needed& claim) const {
  dra::Claim made;
  made.name = claim.name;
  if (claim.object.empty()) made.pod = pod.name;
  std::map<std::string, std::vector<std::string>> requests;  // by class
  std::set<std::string> taken;                               // requests and subrequests
  for (const Pick& pick : claim.picks) {
    const ClaimRequest& request = claim.spec->requests[pick.request];
    const DeviceAsk& ask = request.either[pick.either];
    const PublishedDevice& device = published_.devices[pick.device];
    add_once(requests[ask.device_class], request.name);
    taken.insert(request.name);
    taken.insert(request.name + "/" + ask.name);
    const std::string share = device.shared ? fmt::format("share-{}", made.devices.size()) : "";
    made.devices.push_back({request.name, offered_.pool, device.name, share, pick.admin_access, pick.consumed});
  }
  // As the scheduler copies them: those of classes for the requests that have devices of the class, those of the claim
  // without alternatives that were not taken.
  for (const auto& [name, of_class] : requests) {
    const auto found = classes_.find(name);
    if (found == classes_.end()) continue;
    for (OpaqueAsk config : found->second.configs) {
      if (config.driver != offered_.driver) continue;
      config.config.requests = of_class;
      made.configs.push_back(std::move(config.config));
    }
  }
  for (const OpaqueAsk& asked : claim.spec->configs) {
    if (asked.driver != offered_.driver) continue;
    dra::OpaqueConfig config = asked.config;
    std::erase_if(config.requests, [&](const std::string& name) { return !taken.contains(name); });
    if (config.requests.empty() && !asked.config.requests.empty()) continue;
    for (auto& name : config.requests) name = name.substr(0, name.find('/'));
    made.configs.push_back(std::move(config));
  }
  return made;
}

std::vector<ClaimGrant> ClaimLedger::grants_of(const PodAsk& pod, const Needed& claim,
                                               const dra::PreparedClaim& prepared) const {
  std::vector<ClaimGrant> grants;
  for (const Pick& pick : claim.picks) {
    const ClaimRequest& request = claim.spec->requests[pick.request];
    const DeviceAsk& ask = request.either[pick.either];
    const PublishedDevice& device = published_.devices[pick.device];
    ClaimGrant grant;
    grant.claim = claim.pod_claim;
    grant.object = claim.object;
    grant.request = ask.name.empty() ? request.name : request.name + "/" + ask.name;
    grant.device_class = ask.device_class;
    grant.device = device.name;
    grant.uuid = device.device->gpu_uuid;
    grant.index = std::to_string(device.device->index);
    grant.asked = ask.capacity;
    grant.consumed = pick.consumed;
    const auto part = std::ranges::find_if(prepared.parts, [&](const dra::Part& each) {
      return each.request == request.name && each.gpu_uuid == grant.uuid;
    });
    if (part != prepared.parts.end()) grant.limits = part->of_each_process();
    for (std::size_t c = 0; c < pod.containers.size(); ++c) {
      const ContainerAsk& container = pod.containers[c];
      const bool uses = std::ranges::any_of(container.claims, [&](const ClaimUse& use) {
        return use.name == claim.pod_claim && (use.request.empty() || use.request == request.name);
      });
      if (uses || request.name.starts_with(fmt::format("container-{}-request-", c)))
        grant.containers.push_back(container.name);
    }
    grants.push_back(std::move(grant));
  }
  return grants;
}

void ClaimLedger::prepare(const PodAsk& pod, const std::vector<Needed>& claims, PodOutcome& outcome) {
  for (const Needed& claim : claims) {
    const auto made = dra::prepare(as_allocated(pod, claim), offered_, prepared_);
    if (!made) {
      outcome.fate = Fate::kRefused;
      outcome.claims.clear();
      outcome.why.push_back(
          fmt::format("{}: the scheduler grants it, and the node refuses it (the pod stays in "
                      "ContainerCreating and keeps its devices): {}",
                      shown(claim), made.error().what));
      return;
    }
    prepared_.insert_or_assign(claim.name.uid, *made);
    std::ranges::move(grants_of(pod, claim, *made), std::back_inserter(outcome.claims));
  }
}

std::vector<ClaimsLeft> ClaimLedger::left() const {
  std::map<std::uint32_t, ClaimsLeft> by_index;
  for (std::size_t d = 0; d < published_.devices.size(); ++d) {
    const PublishedDevice& device = published_.devices[d];
    if (device.draws.empty()) continue;  // it takes nothing of the GPU
    ClaimsLeft& left = by_index[device.device->index];
    left.uuid = device.device->gpu_uuid;
    left.index = std::to_string(device.device->index);
    const auto& use = allocator_.use(d);
    if (const auto& partition = device.device->partition) {
      auto& memory = left.capacity["memory"];
      memory.all = mib(partition->of_gpu.memory_mib).value;
      if (use.shares > 0) memory.taken += mib(partition->takes.memory_mib).value;
      left.partitions += use.shares;
      continue;
    }
    if (!device.shared) {
      if (use.shares > 0) left.whole_by = use.holders.back();
      continue;
    }
    left.shares = use.shares;
    for (const auto& [name, capacity] : device.capacity) left.capacity[name].all = capacity.value;
    for (const auto& [name, amount] : use.consumed) left.capacity[name].taken = amount;
  }
  std::vector<ClaimsLeft> all;
  for (auto& [index, left] : by_index) all.push_back(std::move(left));
  return all;
}

}  // namespace tranche::simulate
