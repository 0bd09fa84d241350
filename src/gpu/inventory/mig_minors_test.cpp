#include "gpu/inventory/inventory.h"

#include <gmock/gmock.h>

namespace tranche::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The table as a driver writes it: every instance of 32 GPUs, whether or not it exists.
std::string whole_table() {
  std::string text = "config 1\nmonitor 2\n";
  for (int gpu = 0, minor = 3; gpu < 32; ++gpu) {
    for (int gi = 0; gi < 15; ++gi) {
      const std::string instance = "gpu" + std::to_string(gpu) + "/gi" + std::to_string(gi);
      text += instance + "/access " + std::to_string(minor++) + "\n";
      for (int ci = 0; ci < 8; ++ci)
        text += instance + "/ci" + std::to_string(ci) + "/access " + std::to_string(minor++) + "\n";
    }
  }
  return text;
}

// GPUs with each of these compute instances in each of these GPU instances.
Inventory cut(std::uint32_t gpus, std::uint32_t gis, std::uint32_t cis) {
  Inventory inventory;
  inventory.gpus.resize(gpus);
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    inventory.gpus[gpu].minor = gpu;
    for (std::uint32_t at = 0; at < gis * cis; ++at) {
      MigDevice& mig = inventory.gpus[gpu].mig_devices.emplace_back();
      mig.gpu_instance = at / cis;
      mig.compute_instance = at % cis;
    }
  }
  return inventory;
}

TEST(MigMinors, NameTheNodeOfEveryInstanceOfTheDriversTable) {
  Inventory inventory = cut(32, 15, 8);
  set_mig_nodes(whole_table(), "table", inventory);
  for (const Gpu& gpu : inventory.gpus) {
    for (const MigDevice& mig : gpu.mig_devices) {
      const std::uint32_t gi = 3 + 135 * gpu.minor + 9 * mig.gpu_instance;
      ASSERT_EQ(mig.gi_cap, gi);
      ASSERT_EQ(mig.ci_cap, gi + 1 + mig.compute_instance);
    }
  }
  EXPECT_EQ(inventory.gpus[31].mig_devices[14 * 8 + 7].ci_cap, 4322u);
  EXPECT_THAT(inventory.doubts, IsEmpty());
  for (Inventory beyond : {cut(33, 1, 1), cut(1, 16, 1), cut(1, 1, 9)}) {
    set_mig_nodes(whole_table(), "table", beyond);
    EXPECT_EQ(beyond.gpus.back().mig_devices.back().ci_cap, std::nullopt);
    EXPECT_THAT(beyond.doubts, ElementsAre(HasSubstr("table does not list the device nodes that open it")));
  }
}

TEST(MigMinors, LinesThatDoNotFitAreQuotedAndTheOthersHold) {
  Inventory inventory = cut(1, 3, 1);
  set_mig_nodes(
      "gpu0/gi1/access 12\n"
      "gpu0/gi1/access twelve\n"
      "gpu0/gi1/ci0/access\n"
      "\n"
      "gpu-1/gi1/access 4\n"
      "gpu0/gi1/ci0/access 13\r\n"
      "gpu0/gi1/ci0/other 13\n"
      "gpu0/gi2/access 1048576\n"
      "config 1 2\n",
      "table", inventory);
  const auto& devices = inventory.gpus[0].mig_devices;
  EXPECT_EQ(devices[1].gi_cap, 12u);
  EXPECT_EQ(devices[1].ci_cap, 13u);
  EXPECT_EQ(devices[2].gi_cap, std::nullopt) << "no device node has such a number";
  EXPECT_THAT(inventory.doubts,
              ElementsAre(HasSubstr("table: line 2 is \"gpu0/gi1/access twelve\""), HasSubstr("line 3 is"),
                          HasSubstr("line 5 is"), "table: 6 lines are not understood", HasSubstr("does not list"),
                          HasSubstr("does not list")));
}

}  // namespace
}  // namespace tranche::gpu
