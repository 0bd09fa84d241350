// Configuration file × recorded node → Problems, plan and labels, end to end through the pure stages. The files of the
// configuration `none` have all labels, the others what differs from them.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "config/resolve.h"
#include "golden/golden.h"
#include "golden/json_lines.h"
#include "gpu/inventory/inventory.h"
#include "labels/label.h"
#include "plan/plan.h"
#include "plan/select.h"
#include "plan/table.h"

namespace tranche {
namespace {

using Json = nlohmann::ordered_json;

struct Case {
  std::string config;
  std::string inventory;
};
const std::vector<Case> kCases{
    {"none", "no-gpus"},
    {"none", "station"},
    {"none", "8xA100-mixed-mig"},
    {"none", "4xH200"},
    {"mps-4-renamed", "2xT4"},
    {"mps-10", "4xH200"},
    {"mps-10", "8xA100-mixed-mig"},
    {"mps-10", "no-gpus"},
    {"mps-5", "4xH200"},
    {"mps-5-unrounded", "1xH200"},
    {"mps-20-several", "4xH200"},
    {"mps-48", "2xV100"},
    {"mps-49", "2xT4"},
    {"mps-mig", "8xA100-mixed-mig"},
    {"slices-10", "2xT4"},
    {"single", "2xA100-uniform-mig"},
    {"single", "8xA100-mixed-mig"},
    {"mixed", "8xA100-mixed-mig"},
    {"both", "2xT4"},
    {"wrong", "2xT4"},
    {"individual", "4xH200"},
    {"units-1000", "4xH200"},
    {"sizes", "station"},
    {"side-by-side", "8xA100-mixed-mig"},
    {"collisions", "2xT4"},
};

void PrintTo(const Case& row, std::ostream* out) {
  *out << row.config << " on " << row.inventory;
}

config::Resolved config_of(const Case& row) {
  const auto parsed =
      config::parse(golden::read(golden::source("tests/golden/plan/configs/" + row.config + ".yaml")), "config.yaml");
  return config::resolve(parsed, config::Program::kDevicePlugin, {});
}

gpu::Inventory inventory_of(const Case& row) {
  const std::string text = golden::read(golden::source("tests/golden/plan/inventories/" + row.inventory + ".json"));
  auto inventory = gpu::parse_inventory(text, row.inventory);
  EXPECT_TRUE(inventory) << to_string(inventory.error());
  return inventory.value_or(gpu::Inventory{});
}

void add_problems(const std::vector<Problem>& problems, Json& into) {
  for (const Problem& problem : problems) into["problems"].push_back(to_string(problem));
}

// Every GPU is behind a resource or left out with a reason, never forgotten.
void expect_all_accounted_for(const plan::Plan& plan, const gpu::Inventory& inventory) {
  std::set<std::string> seen;
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices) seen.insert(device.gpu_uuid);
  for (const auto& gpu : inventory.gpus) {
    const bool left_out = std::ranges::any_of(
        plan.left_out, [&](const plan::LeftOut& left) { return left.what.find(gpu.uuid) != std::string::npos; });
    EXPECT_NE(seen.contains(gpu.uuid), left_out) << gpu.uuid;
  }
  EXPECT_GE(plan.left_out.size(), inventory.unreadable.size());
}

labels::Labels labels_of(const config::Config& config, const gpu::Inventory& inventory, const plan::Plan& plan) {
  labels::Inputs inputs;
  inputs.machine_type = "Example Node";
  return labels::labels_for(config, inventory, plan, inputs);
}

labels::Labels unconfigured(const gpu::Inventory& inventory) {
  return labels_of({}, inventory, plan::make_plan({}, inventory).value_or(plan::Plan{}));
}

class GoldenPlan : public testing::TestWithParam<Case> {};

TEST_P(GoldenPlan, IsAsExpected) {
  const config::Resolved resolved = config_of(GetParam());
  const gpu::Inventory whole = inventory_of(GetParam());
  const gpu::Inventory inventory = plan::keep_gpus(resolved.config.devices, whole);
  Json actual{{"problems", Json::array()}};
  add_problems(resolved.problems, actual);
  plan::Plan plan;
  if (!has_error(resolved.problems)) {
    auto made = plan::make_plan(resolved.config, inventory);
    if (made) {
      plan = *std::move(made);
      actual["plan"] = plan;
      expect_all_accounted_for(plan, whole);
    } else {
      add_problems(made.error(), actual);
    }
    // What differs from the labels of the node without a configuration.
    actual["labels"] = golden::label_lines(labels_of(resolved.config, inventory, plan),
                                           GetParam().config == "none" ? labels::Labels{} : unconfigured(whole));
  }
  golden::compare(
      golden::source("tests/golden/plan/expected/" + GetParam().config + "." + GetParam().inventory + ".json"),
      golden::json_lines(actual) + "\n");
}

INSTANTIATE_TEST_SUITE_P(Plans, GoldenPlan, testing::ValuesIn(kCases), [](const auto& row) {
  std::string name = row.param.config + "_on_" + row.param.inventory;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

class GoldenTable : public testing::TestWithParam<Case> {};

TEST_P(GoldenTable, ShowsANode) {
  const Case& row = GetParam();
  const config::Resolved resolved = config_of(row);
  const gpu::Inventory inventory = inventory_of(row);
  const auto plan = plan::make_plan(resolved.config, inventory);
  ASSERT_TRUE(plan);
  const labels::Labels labels{{"nvidia.com/gpu.count", "4"}, {"tranche.io/gpu.slot.sms", "30"}};
  golden::compare(golden::source("tests/golden/plan/expected/" + row.config + "." + row.inventory + ".txt"),
                  render_table(*plan, inventory, labels, {}));
}

INSTANTIATE_TEST_SUITE_P(Tables, GoldenTable,
                         testing::Values(Case{"individual", "4xH200"}, Case{"units-1000", "4xH200"}),
                         [](const auto& row) {
                           std::string name = row.param.config;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(GoldenPlanInputs, AreAllUsedAndReadBack) {
  std::set<std::string> configs;
  std::set<std::string> inventories;
  for (const Case& row : kCases) {
    configs.insert(row.config);
    inventories.insert(row.inventory);
    const gpu::Inventory inventory = inventory_of(row);
    EXPECT_EQ(gpu::parse_inventory(to_json(inventory).dump(), "again"), inventory) << row.inventory;
  }
  for (const auto& file : std::filesystem::directory_iterator(golden::source("tests/golden/plan/configs")))
    EXPECT_TRUE(configs.contains(file.path().stem().string())) << file.path();
  for (const auto& file : std::filesystem::directory_iterator(golden::source("tests/golden/plan/inventories")))
    EXPECT_TRUE(inventories.contains(file.path().stem().string())) << file.path();
}

}  // namespace
}  // namespace tranche
