// The MIG configurations that exist without a file, of every GPU model, with what each comes to on an empty GPU.
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "gpu/mig/mig_models.h"
#include "mig/mig_plan.h"

namespace tranche::mig {
namespace {

std::string outcome(const Configuration& configuration, const std::vector<GpuState>& gpus) {
  const auto plan = make_plan(configuration, gpus);
  std::string text = "# " + configuration.name + ":";
  if (!plan.possible()) return text + " not possible\n";
  if (plan.gpus[0].as_wanted) return text + " as it is\n";
  if (plan.gpus[0].target.parts.empty()) return text + " MIG on, no instance\n";
  for (const Part& part : plan.gpus[0].target.parts)
    text += " " + part.profile + "@" + std::to_string(part.placement.start);
  return text + "\n";
}

// Promise: mig/config: The default configurations of each GPU model have NVIDIA's names and counts.
TEST(MigGolden, DefaultConfigurationsOfEveryModel) {
  for (const Model& model : models()) {
    const auto gpus = *simulated_node(model.key);
    const auto file = default_configurations(gpus);
    std::string text = to_yaml(file) + "# On an empty GPU, each instance with its first memory slice:\n";
    for (const auto& configuration : file.configurations) text += outcome(configuration, gpus);
    golden::compare(golden::source("tests/golden/mig/" + std::string(model.key) + ".yaml"), text);
  }
}

TEST(MigGolden, DefaultConfigurationsOfUnlikeGpus) {
  auto gpus = *simulated_node("2xA100-SXM4-80GB");
  for (const char* key : {"H100-SXM5-80GB", "A30"}) {
    auto other = *simulated_node(key);
    other[0].index = static_cast<std::uint32_t>(gpus.size());
    gpus.push_back(other[0]);
  }
  golden::compare(golden::source("tests/golden/mig/unlike.yaml"), to_yaml(default_configurations(gpus)));
}

}  // namespace
}  // namespace tranche::mig
