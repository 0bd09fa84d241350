// Configuration × recorded node × pods → outcomes as a table, three of them as JSON too; and two configurations
// compared.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "config/resolve.h"
#include "golden/golden.h"
#include "golden/json_lines.h"
#include "gpu/inventory/inventory.h"
#include "labels/label.h"
#include "plan/plan.h"
#include "simulate/land.h"

namespace tranche {
namespace {

struct Case {
  std::string config;
  std::string inventory;
  std::string pods;
  bool as_json = false;
};
const std::vector<Case> kCases{
    {"aggregate", "4xH200", "tens", true},
    {"aggregate", "4xH200", "workloads", true},
    {"aggregate", "4xH200", "unsolvable", true},
    {"one-slot", "2xT4", "workloads"},
    {"slices", "2xT4", "workloads"},
    {"mig", "8xA100-mixed-mig", "workloads"},
};

void PrintTo(const Case& row, std::ostream* out) {
  *out << row.pods << " on " << row.inventory << " with " << row.config;
}

std::filesystem::path file(const std::string& path) {
  return golden::source("tests/golden/simulate/" + path);
}

struct Side {
  config::Config config;
  plan::Plan plan;
  labels::Labels labels;
};

Side side_of(const std::string& name, const gpu::Inventory& inventory) {
  const auto parsed = config::parse(golden::read(file("configs/" + name + ".yaml")), name);
  auto resolved = config::resolve(parsed, config::Program::kDevicePlugin, {});
  for (const auto& problem : resolved.problems) ADD_FAILURE() << to_string(problem);
  auto plan = plan::make_plan(resolved.config, inventory);
  EXPECT_TRUE(plan);
  Side side{resolved.config, plan.value_or(plan::Plan{}), {}};
  side.labels = labels::labels_for(side.config, inventory, side.plan, {});
  return side;
}

gpu::Inventory inventory_of(const std::string& name) {
  const auto text = golden::read(golden::source("tests/golden/plan/inventories/" + name + ".json"));
  return gpu::parse_inventory(text, name).value_or(gpu::Inventory{});
}

simulate::PodsRead pods_of(const std::string& name) {
  auto read = simulate::read_pods(golden::read(file("pods/" + name + ".yaml")), name);
  for (const auto& problem : read.problems) ADD_FAILURE() << to_string(problem);
  return read;
}

class GoldenSimulation : public testing::TestWithParam<Case> {};

TEST_P(GoldenSimulation, IsAsExpected) {
  const Case& row = GetParam();
  const auto inventory = inventory_of(row.inventory);
  const Side side = side_of(row.config, inventory);
  const auto pods = pods_of(row.pods);
  const auto simulation = simulate::land(side.plan, inventory, side.config, pods.pods);
  const std::string name = "expected/" + row.pods + "." + row.config + "." + row.inventory;
  golden::compare(file(name + ".txt"), simulate::render_table(simulation, {}));
  if (row.as_json) golden::compare(file(name + ".json"), golden::json_lines(simulation) + "\n");
}

INSTANTIATE_TEST_SUITE_P(Simulation, GoldenSimulation, testing::ValuesIn(kCases), [](const auto& row) {
  std::string name = row.param.pods + "_on_" + row.param.inventory + "_with_" + row.param.config;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

TEST(GoldenComparison, OfTwoConfigurationsWithPodsIsAsExpected) {
  const auto inventory = inventory_of("4xH200");
  const Side before = side_of("slices", inventory);
  const Side after = side_of("aggregate", inventory);
  const auto pods = pods_of("workloads").pods;
  auto differences = simulate::compare({before.plan, before.labels}, {after.plan, after.labels});
  for (auto& each : simulate::compare(simulate::land(before.plan, inventory, before.config, pods),
                                      simulate::land(after.plan, inventory, after.config, pods)))
    differences.push_back(std::move(each));
  golden::compare(file("expected/slices-to-aggregate.4xH200.txt"),
                  simulate::render_table(differences, "slices.yaml", "aggregate.yaml", {}));
  golden::compare(file("expected/slices-to-aggregate.4xH200.json"), golden::json_lines(differences) + "\n");
}

TEST(GoldenSimulationInputs, AreAllUsed) {
  std::set<std::string> used;
  for (const Case& row : kCases) used.insert({"configs/" + row.config + ".yaml", "pods/" + row.pods + ".yaml"});
  for (const std::string folder : {"configs", "pods"})
    for (const auto& entry : std::filesystem::directory_iterator(file(folder)))
      EXPECT_TRUE(used.contains(folder + "/" + entry.path().filename().string())) << entry.path();
}

}  // namespace
}  // namespace tranche
