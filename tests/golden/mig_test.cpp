// The MIG configurations that exist without a file, of every GPU model, with what each comes to on an empty GPU.
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "gpu/models/models.h"
#include "mig/mig_plan.h"

namespace tranche::mig {
namespace {

// Each instance with its first memory slice.
std::string outcome(const Configuration& configuration, const std::vector<GpuState>& gpus) {
  const auto plan = make_plan(configuration, gpus);
  if (!plan.possible()) return " not possible";
  if (plan.gpus[0].as_wanted) return " as it is";
  if (plan.gpus[0].after.instances.empty()) return " MIG on, no instance";
  std::string text;
  for (const GpuInstance& part : plan.gpus[0].after.instances)
    text += " " + profile_name(gpus[0].profiles, part.profile_id) + "@" + std::to_string(part.placement.start);
  return text;
}

// Promise: mig/config: The default configurations of each GPU model have NVIDIA's names and counts.
TEST(MigGolden, DefaultConfigurationsOfEveryModel) {
  std::string text;
  for (const gpu::GpuModel& model : gpu::mig_models()) {
    const auto gpus = *gpu::simulated_node(model.key);
    const auto file = default_configurations(gpus);
    text += std::string(model.key) + "\n";
    for (const auto& configuration : file.configurations) {
      ASSERT_EQ(configuration.entries.size(), 1u) << configuration.name;
      const Entry& entry = configuration.entries[0];
      EXPECT_TRUE(entry.filters.empty() && !entry.devices) << configuration.name;
      text += "  " + configuration.name + ": " + (entry.enabled ? to_string(entry.instances) : "off") + " ->" +
              outcome(configuration, gpus) + "\n";
    }
    const auto again = parse_configuration_file(to_yaml(file), "again");
    EXPECT_TRUE(again.problems.empty()) << model.key;
    EXPECT_EQ(to_yaml(again.file), to_yaml(file));
  }
  golden::compare(golden::source("tests/golden/mig/models.txt"), text);
}

TEST(MigGolden, DefaultConfigurationsOfUnlikeGpus) {
  auto gpus = *gpu::simulated_node("2xA100-SXM4-80GB");
  for (const char* key : {"H100-SXM5-80GB", "A30"}) {
    auto other = *gpu::simulated_node(key);
    other[0].index = static_cast<std::uint32_t>(gpus.size());
    gpus.push_back(other[0]);
  }
  golden::compare(golden::source("tests/golden/mig/unlike.yaml"), to_yaml(default_configurations(gpus)));
}

}  // namespace
}  // namespace tranche::mig
