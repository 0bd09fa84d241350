// The configurations without a file; tests/golden/mig has those of every model.
#include "mig/configuration.h"

#include <gmock/gmock.h>

#include "gpu/models/models.h"
#include "mig/mig_plan.h"

namespace tranche::mig {
namespace defaults_test {

using ::testing::IsEmpty;

// Promise: mig/config: Every configuration that exists without a file can be reached on the GPUs for which it is made.
TEST(MigDefaults, EveryOneCanBeReached) {
  for (const gpu::GpuModel& model : gpu::mig_models()) {
    const auto gpus = *gpu::simulated_node("2x" + std::string(model.key));
    for (const auto& configuration : default_configurations(gpus).configurations) {
      EXPECT_THAT(configuration.entries[0].filters, IsEmpty()) << "they are alike";
      const auto plan = make_plan(configuration, gpus);
      EXPECT_TRUE(plan.possible()) << model.key << " " << configuration.name << " "
                                   << (plan.problems.empty() ? "" : to_string(plan.problems[0]));
    }
  }
}

TEST(MigExport, PutsGpusOfEqualStateTogether) {
  auto gpus = *gpu::simulated_node("4xA100-SXM4-40GB");
  EXPECT_EQ(to_yaml(exported(gpus, "current")),
            "version: v1\nmig-configs:\n  current:\n  - devices: all\n    mig-enabled: false\n    mig-devices: {}\n");
  gpus[1].enabled = gpus[3].enabled = true;
  gpus[1].instances = gpus[3].instances = {
      {.id = 1, .profile_id = 9, .placement = {0, 4}, .compute = {{.id = 0, .placement = {0, 3}}}},
      {.id = 2, .profile_id = 9, .placement = {4, 4}, .compute = {{.id = 0, .placement = {0, 1}}}}};
  EXPECT_EQ(to_yaml(exported(gpus, "now")),
            "version: v1\nmig-configs:\n  now:\n"
            "  - devices: [0, 2]\n    mig-enabled: false\n    mig-devices: {}\n"
            "  - devices: [1, 3]\n    mig-enabled: true\n    mig-devices:\n      1c.3g.20gb: 1\n      3g.20gb: 1\n");
}

TEST(MigExport, NamesTheModelWhereThereAreSeveral) {
  auto gpus = *gpu::simulated_node("2xA100-SXM4-40GB");
  auto other = *gpu::simulated_node("H200");
  other[0].index = 2;
  other[0].enabled = true;
  gpus.push_back(other[0]);
  EXPECT_EQ(to_yaml(exported(gpus, "current")),
            "version: v1\nmig-configs:\n  current:\n"
            "  - device-filter: \"0x20B010DE\"\n    devices: all\n    mig-enabled: false\n    mig-devices: {}\n"
            "  - device-filter: \"0x233510DE\"\n    devices: all\n    mig-enabled: true\n    mig-devices: {}\n");
}

}  // namespace defaults_test
}  // namespace tranche::mig
