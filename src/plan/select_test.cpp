#include "plan/select.h"

#include <gmock/gmock.h>

#include "plan/plan.h"

namespace tranche::plan {
namespace select_test {

using ::testing::ElementsAre;
using ::testing::SizeIs;

gpu::Inventory four() {
  gpu::Inventory inventory;
  for (std::uint32_t i = 0; i < 4; ++i) {
    gpu::Gpu gpu;
    gpu.uuid = "GPU-0000000" + std::to_string(i) + "-AAAA-bbbb-cccc-dddddddddddd";
    gpu.index = gpu.minor = i;
    gpu.name = i < 2 ? "NVIDIA H200" : "NVIDIA A100-SXM4-40GB";
    gpu.pci_bus_id = "00000000:3" + std::string(1, static_cast<char>('A' + i)) + ":00.0";
    inventory.gpus.push_back(gpu);
  }
  for (std::uint32_t a = 0; a < 4; ++a)
    for (std::uint32_t b = a + 1; b < 4; ++b) inventory.links.push_back({a, b, static_cast<int>(10 * a), b});
  return inventory;
}
std::vector<std::uint32_t> kept(std::vector<std::string> include, std::vector<std::string> exclude) {
  config::DeviceFilter filter;
  for (auto& text : include) filter.include.push_back({text});
  for (auto& text : exclude) filter.exclude.push_back({text});
  std::vector<std::uint32_t> indices;
  for (const auto& gpu : keep_gpus(filter, four()).gpus) indices.push_back(gpu.index);
  return indices;
}

TEST(Select, WithoutAWordEveryGpuIsIn) {
  EXPECT_EQ(keep_gpus({}, four()), four());
}

TEST(Select, GpusAreNamedByUuidAddressIndexAndModel) {
  EXPECT_THAT(kept({"GPU-00000001-aaaa-bbbb-cccc-dddddddddddd"}, {}), ElementsAre(1));
  EXPECT_THAT(kept({"GPU-{00000001-aaaa-bbbb-cccc-dddddddddddd}"}, {}), ElementsAre(1));
  EXPECT_THAT(kept({"0000:3c:00.0"}, {}), ElementsAre(2));
  EXPECT_THAT(kept({"3"}, {}), ElementsAre(3));
  EXPECT_THAT(kept({"NVIDIA H200*"}, {}), ElementsAre(0, 1));
  EXPECT_THAT(kept({"*a100*"}, {}), ElementsAre(2, 3));
  EXPECT_THAT(kept({"4"}, {}), SizeIs(0)) << "A100-SXM4-40GB has a 4 and is not meant";
}

TEST(Select, WhatIsExcludedIsOutWhateverIsIncluded) {
  EXPECT_THAT(kept({}, {"0"}), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept({"NVIDIA H200"}, {"0"}), ElementsAre(1));
}

TEST(Select, LinksFollowTheirGpus) {
  const auto left = keep_gpus({.include = {}, .exclude = {{"1"}}}, four());
  ASSERT_THAT(left.gpus, SizeIs(3));
  ASSERT_THAT(left.links, SizeIs(3));
  for (const auto& link : left.links) {
    EXPECT_LT(link.a, link.b);
    EXPECT_EQ(link.nvlinks, left.gpus[link.b].index) << "what was said of the pair";
  }
}

TEST(Select, ThePlanSaysWhoIsOutAndWhy) {
  const auto plan = make_plan({}, keep_gpus({.include = {{"0"}, {"1"}}, .exclude = {{"NVIDIA H200"}}}, four()));
  ASSERT_TRUE(plan);
  ASSERT_THAT(plan->left_out, SizeIs(4));
  EXPECT_EQ(plan->left_out[0].what, "GPU 0 (GPU-00000000-AAAA-bbbb-cccc-dddddddddddd)");
  EXPECT_EQ(plan->left_out[0].why, "devices.exclude has \"NVIDIA H200\"");
  EXPECT_EQ(plan->left_out[3].why, "devices.include does not name it");
}

TEST(Select, ReferencesOfEntriesNameDevices) {
  auto inventory = four();
  auto& gpu = inventory.gpus[2];
  gpu::MigDevice mig;
  mig.uuid = "MIG-12345678-aaaa-bbbb-cccc-dddddddddddd";
  mig.gpu_instance = 5;
  mig.compute_instance = 0;
  gpu.mig_devices = {mig};
  Candidate whole;
  whole.device.uuid = whole.device.gpu_uuid = inventory.gpus[1].uuid;
  whole.device.index = "1";
  whole.gpu = &inventory.gpus[1];
  Candidate part;
  part.device.uuid = mig.uuid;
  part.device.gpu_uuid = gpu.uuid;
  part.device.index = "2:0";
  part.device.is_mig = true;
  part.gpu = &gpu;
  EXPECT_TRUE(names_device("1", whole));
  EXPECT_TRUE(names_device("01", whole));
  EXPECT_TRUE(names_device("GPU-00000001AAAAbbbbccccdddddddddddd", whole));
  for (const char* other : {"0", "11", "1:0", "GPU-00000002-aaaa-bbbb-cccc-dddddddddddd"})
    EXPECT_FALSE(names_device(other, whole)) << other;
  for (const char* same :
       {"2:0", "2", "MIG-12345678-AAAA-bbbb-cccc-dddddddddddd", "MIG-GPU-00000002-aaaa-bbbb-cccc-dddddddddddd/5/0",
        "GPU-00000002-aaaa-bbbb-cccc-dddddddddddd"})
    EXPECT_TRUE(names_device(same, part)) << same;
  for (const char* other : {"2:1", "1", "0", "MIG-GPU-00000002-aaaa-bbbb-cccc-dddddddddddd/6/0",
                            "MIG-GPU-00000001-aaaa-bbbb-cccc-dddddddddddd/5/0"})
    EXPECT_FALSE(names_device(other, part)) << other;
}

}  // namespace select_test
}  // namespace tranche::plan
