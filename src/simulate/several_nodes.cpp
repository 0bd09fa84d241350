#include "simulate/several_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tranche::simulate {

std::vector<Simulation> land_on_nodes(std::size_t nodes, const plan::Plan& plan, const inventory::Inventory& inventory,
                                      const config::Config& config, const std::vector<PodAsk>& pods) {
  std::vector<Simulation> all;
  std::vector<PodAsk> rest = pods;
  while (all.size() < nodes) {
    auto simulation = land(plan, inventory, config, rest);
    std::vector<PodAsk> passed_on;
    if (all.size() + 1 < nodes) {
      std::set<std::string> waiting;
      for (const PodOutcome& outcome : simulation.pods)
        if (outcome.fate == Fate::kWaits) waiting.insert(outcome.full_name());
      const auto stays = std::stable_partition(rest.begin(), rest.end(),
                                               [&](const PodAsk& pod) { return !waiting.contains(pod.full_name()); });
      passed_on.assign(std::make_move_iterator(stays), std::make_move_iterator(rest.end()));
      rest.erase(stays, rest.end());
      if (!passed_on.empty()) simulation = land(plan, inventory, config, rest);  // a pod that waits takes nothing
    }
    all.push_back(std::move(simulation));
    rest = std::move(passed_on);
  }
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

}  // namespace tranche::simulate
