#include <algorithm>
#include <numeric>

#include "observe/web/web.h"

namespace tranche::web {
namespace {

constexpr std::size_t kMostSizes = 8;

}  // namespace

Node make_node(std::string name, std::string_view status_json) {
  Node node{std::move(name), {}, {}};
  if (auto view = view::make_view(status_json, "")) {
    node.view = *std::move(view);
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
      const auto held = static_cast<std::uint64_t>(std::ranges::count_if(device.slots, [](int t) { return t >= 0; }));
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
      capacity.pieces.push_back(rest);
      capacity.by_node[node.name] += rest;
    }
  }
  for (auto& [resource, capacity] : all) {
    std::ranges::sort(capacity.pieces, std::ranges::greater());
    capacity.largest = capacity.pieces.empty() ? 0 : capacity.pieces.front();
  }
  return all;
}

std::vector<Fit> fits(const Capacity& capacity) {
  std::vector<Fit> all;
  for (std::uint64_t request = 1; request <= capacity.largest; ++request) {
    // Small sizes one by one, then doubled, so that a GPU of 100 slots has a short table; the largest comes last.
    if (all.size() == kMostSizes - 1 && request < capacity.largest) request = capacity.largest;
    Fit& fit = all.emplace_back(Fit{request, 0, 0});
    for (const auto piece : capacity.pieces) fit.containers += piece / request;
    fit.stranded = capacity.free - fit.containers * request;
    if (request >= 4 && request * 2 <= capacity.largest) request = request * 2 - 1;
  }
  return all;
}

}  // namespace tranche::web
