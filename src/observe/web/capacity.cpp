#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_read.h"
#include "base/json_text.h"
#include "config/model.h"
#include "observe/web/web.h"
#include "plan/slot_id.h"

namespace tranche::web {
namespace {

constexpr std::size_t kMostSizes = 8;

plan::PlannedDevice device_of(const nlohmann::json& json) {
  plan::PlannedDevice device;
  device.uuid = device.gpu_uuid = text_at(json, "uuid");
  device.index = text_at(json, "index");
  device.is_mig = device.index.find(':') != std::string::npos;
  device.memory = mib(count_at(json, "memoryMiB"));
  device.sm_count = static_cast<std::uint32_t>(count_at(json, "smCount"));
  device.share.memory = mib(count_at(json, "slotMemoryMiB"));
  device.pool = text_at(json, "pool");
  device.slots = static_cast<std::uint32_t>(list_at(json, "slots").size());
  for (const auto& slot : list_at(json, "slots")) device.replicated = text_at(slot, "id") != device.uuid;
  return device;
}

// The plan of each resource, as far as the agent's page shows it.
std::vector<simulate::Offer> offers_of(const nlohmann::json& status) {
  std::map<std::string, simulate::Offer> offers;
  const bool packed =
      text_at(member_at(status, "config"), "allocationPolicy") == config::to_string(config::AllocationPolicy::kPacked);
  for (const auto& json : list_at(status, "devices")) {
    const std::string name = text_at(json, "resource");
    auto& offer = offers[name];
    offer.resource.name = name;
    if (packed) offer.policy = config::AllocationPolicy::kPacked;
    for (const auto sharing : {config::SharingStrategy::kTimeSlicing, config::SharingStrategy::kMps})
      if (text_at(json, "sharing") == config::to_string(sharing)) offer.resource.sharing = sharing;
    const bool healthy = truth_at(json, "healthy");
    const auto& device = offer.resource.devices.emplace_back(device_of(json));
    std::uint32_t at = 0;
    for (const auto& slot : list_at(json, "slots")) {
      const auto id = plan::render({device.uuid, device.replicated ? std::optional(at) : std::nullopt});
      if (!healthy || !text_at(slot, "holder").empty()) offer.taken.insert(id);
      ++at;
    }
  }
  for (const auto& json : list_at(status, "resources")) {
    const auto found = offers.find(text_at(json, "name"));
    if (found == offers.end()) continue;
    found->second.resource.one_slot_per_request = truth_at(json, "oneSlotPerRequest");
    if (text_at(json, "split") == config::to_string(config::SplitPolicy::kSpan))
      found->second.resource.split = config::SplitPolicy::kSpan;
  }
  std::vector<simulate::Offer> all;
  for (auto& [name, offer] : offers) all.push_back(std::move(offer));
  return all;
}

}  // namespace

Node make_node(std::string name, std::string_view status_json) {
  Node node{std::move(name), {}, {}};
  if (auto view = view::make_view(status_json, "")) {
    node.view = *std::move(view);
    node.offers = offers_of(json_of(status_json));
    for (const auto& offer : node.offers) node.largest[offer.resource.name] = simulate::largest_that_fits(offer);
  } else {
    node.problem = to_string(view.error());
  }
  return node;
}

std::map<std::string, Capacity> capacity_of(const std::vector<Node>& nodes) {
  std::map<std::string, Capacity> all;
  for (const auto& node : nodes) {
    for (const auto& device : node.view.devices) {
      Capacity& capacity = all[device.resource];
      const std::uint64_t held = device.held();
      const std::uint64_t rest = device.slots.size() - held;
      capacity.slots += device.slots.size();
      capacity.held += held;
      if (!device.healthy) {
        capacity.unhealthy += rest;
        continue;
      }
      capacity.free += rest;
      (held == 0 ? capacity.whole : capacity.fragmented) += rest;
      if (rest == 0) continue;
      const auto known = node.largest.find(device.resource);
      capacity.largest = std::max(capacity.largest, known == node.largest.end() ? rest : known->second);
    }
  }
  return all;
}

namespace {

std::set<std::uint64_t> sizes_of(const std::vector<Node>& nodes, const std::string& resource) {
  std::set<std::uint64_t> sizes{1, 2, 3};
  std::uint64_t most = 0;
  for (const auto& node : nodes)
    for (const auto& offer : node.offers) {
      if (offer.resource.name != resource) continue;
      std::uint64_t slots = 0;
      for (const auto& device : offer.resource.devices) {
        slots += device.slots;
        if (sizes.size() < kMostSizes) sizes.insert(device.slots);
      }
      most = std::max(most, slots);
    }
  for (std::uint64_t size = 4; size <= most && sizes.size() < kMostSizes; size *= 2) sizes.insert(size);
  return sizes;
}

// Adds what a node takes of this size; false: it would not even if it were empty.
bool add_node(Fit& fit, const Node& node, const std::string& resource) {
  bool possible = false;
  for (const auto& offer : node.offers) {
    if (offer.resource.name != resource) continue;
    const auto more = simulate::more_that_fit(offer, fit.request);
    possible = possible || more.possible;
    if (more.containers > 0) fit.by_node[node.name] += more.containers;
    fit.containers += more.containers;
  }
  return possible;
}

// What a container with so many slots gets on every GPU; the share of a larger request is not of one GPU.
void describe(Fit& fit, const std::vector<Node>& nodes, const std::string& resource) {
  std::set<std::uint64_t> memory;
  for (const auto& node : nodes)
    for (const auto& offer : node.offers) {
      if (offer.resource.name != resource) continue;
      for (const auto& device : offer.resource.devices) {
        fit.whole = fit.whole || device.slots == fit.request;
        if (fit.request > device.slots) continue;
        memory.insert(fit.request == device.slots ? device.memory.in_mib()
                                                  : device.share.memory.in_mib() * fit.request);
      }
    }
  fit.memory_mib = memory.size() == 1 ? *memory.begin() : 0;
}

}  // namespace

Fits fits_of(const std::vector<Node>& nodes) {
  Fits all;
  for (const auto& [resource, capacity] : capacity_of(nodes)) {
    for (const auto size : sizes_of(nodes, resource)) {
      Fit fit;
      fit.request = size;
      bool possible = false;
      for (const auto& node : nodes) possible = add_node(fit, node, resource) || possible;
      if (!possible) continue;
      describe(fit, nodes, resource);
      fit.stranded = capacity.free - std::min(capacity.free, fit.containers * size);
      all[resource].push_back(std::move(fit));
    }
  }
  return all;
}

}  // namespace tranche::web
