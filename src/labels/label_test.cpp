#include "labels/label.h"

#include <gmock/gmock.h>

#include "labels/label_fixture.h"

namespace tranche::labels {
namespace label_test {

using config::Config;
using config::SharingStrategy;
using gpu::Inventory;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(LabelsTest, WithoutGpusOnlyTimestampAndVgpu) {
  EXPECT_THAT(labels_of({}, {}, {.loaded_at = WallTime(std::chrono::seconds(1)), .vgpu = Vgpu{}}),
              UnorderedElementsAre(Pair("nvidia.com/gfd.timestamp", "1"), Pair("nvidia.com/vgpu.present", "false")));
  EXPECT_THAT(labels_of({}, {}), IsEmpty());
}

TEST(LabelsTest, NoTimestampMeansNone) {
  Config config;
  config.flags.gfd.no_timestamp = true;
  EXPECT_THAT(labels_of(config, {}, {.loaded_at = WallTime(std::chrono::seconds(1))}), IsEmpty());
}

// Promise: labels: Several models give one fixed answer and labels for each model.
TEST(LabelsTest, SeveralModelsGiveOneFixedAnswer) {
  Inventory inventory = node(5);
  inventory.gpus[0].name = inventory.gpus[3].name = "Tesla T4";
  EXPECT_THAT(labels_of({}, inventory),
              IsSupersetOf({Pair("nvidia.com/gpu.product", "NVIDIA-H200"), Pair("nvidia.com/gpu.count", "3")}));
  inventory.gpus[4].name = "Other";
  EXPECT_THAT(labels_of({}, inventory),
              IsSupersetOf({Pair("nvidia.com/gpu.product", "Tesla-T4"), Pair("nvidia.com/gpu.count", "2")}));
  inventory.gpus[0].mig_enabled = inventory.gpus[3].mig_enabled = true;
  EXPECT_THAT(labels_of({}, inventory), Contains(Pair("nvidia.com/gpu.product", "NVIDIA-H200")))
      << "plain GPUs come first";
}

TEST(LabelsTest, WhatIsUnknownIsLeftOut) {
  Inventory inventory = node(1);
  inventory.gpus[0].memory = {};
  inventory.gpus[0].compute_capability = {0, 0};
  inventory.driver_version = "580";
  inventory.cuda_driver_version = 0;
  const Labels labels = labels_of({}, inventory);
  for (const char* absent : {"nvidia.com/gpu.memory", "nvidia.com/gpu.family", "nvidia.com/gpu.compute.major",
                             "nvidia.com/cuda.driver.major", "nvidia.com/cuda.runtime.major", "nvidia.com/gpu.clique",
                             "nvidia.com/vgpu.present"})
    EXPECT_THAT(labels, Not(Contains(Key(absent)))) << absent;
  inventory.driver_version = "470.82";
  EXPECT_THAT(labels_of({}, inventory), Contains(Pair("nvidia.com/cuda.driver.rev", "")));
}

TEST(LabelsTest, FamilyFollowsTheComputeCapability) {
  struct Row {
    gpu::ComputeCapability capability;
    const char* family;
  };
  for (const Row& row : {Row{{3, 5}, "kepler"}, Row{{7, 0}, "volta"}, Row{{7, 5}, "turing"}, Row{{8, 6}, "ampere"},
                         Row{{8, 9}, "ada-lovelace"}, Row{{9, 0}, "hopper"}, Row{{10, 0}, "blackwell"},
                         Row{{12, 0}, "blackwell"}, Row{{13, 0}, "rubin"}, Row{{11, 0}, "undefined"}}) {
    Inventory inventory = node(1);
    inventory.gpus[0].compute_capability = row.capability;
    EXPECT_EQ(labels_of({}, inventory)["nvidia.com/gpu.family"], row.family);
  }
}

TEST(LabelsTest, CliqueIsWhatGpusOnTheFabricAgreeOn) {
  Inventory inventory = node(3);
  inventory.gpus[1].fabric_clique = inventory.gpus[2].fabric_clique = "c0ffee.7";
  EXPECT_EQ(labels_of({}, inventory)["nvidia.com/gpu.clique"], "c0ffee.7");
  inventory.gpus[0].fabric_clique = "c0ffee.8";
  EXPECT_THAT(labels_of({}, inventory), Not(Contains(Key("nvidia.com/gpu.clique"))));
}

TEST(LabelsTest, VgpuReportsItsHostDriver) {
  EXPECT_THAT(labels_of({}, {}, {.vgpu = Vgpu{true, "460.16", "r460_00"}}),
              UnorderedElementsAre(Pair("nvidia.com/vgpu.present", "true"),
                                   Pair("nvidia.com/vgpu.host-driver-version", "460.16"),
                                   Pair("nvidia.com/vgpu.host-driver-branch", "r460_00")));
}

// Promise: labels: A model too long for a label is cut.
TEST(LabelsTest, AModelTooLongForALabelGivesWayToWhatFollowsIt) {
  Inventory inventory = node(1);
  inventory.gpus[0].name = std::string(55, 'x') + " y z";
  const std::string value = labels_of(shared(SharingStrategy::kMps, 4), inventory)["nvidia.com/gpu.product"];
  EXPECT_LE(value.size(), 63u);
  EXPECT_THAT(value, HasSubstr("x-SHARED"));
  inventory.gpus[0].name = "-_.";
  EXPECT_EQ(labels_of({}, inventory)["nvidia.com/gpu.product"], "");
}

TEST(LabelsTest, WhereEntriesDivideTheNodeTheGpuThatSpeaksReportsWhatItBecame) {
  Config config = shared(SharingStrategy::kMps, 10);
  config.sharing.per_device = true;
  config.sharing.resources[0].devices = std::vector<config::DeviceRef>{{"0"}};
  config.sharing.resources[0].rename = "nvidia.com/gpu.part";
  Labels labels = labels_of(config, node(2));
  EXPECT_EQ(labels["nvidia.com/gpu.replicas"], "10");
  EXPECT_EQ(labels["nvidia.com/gpu.product"], "NVIDIA-H200") << "renamed";
  EXPECT_EQ(labels["nvidia.com/gpu.count"], "2");
  config.sharing.resources[0].devices = std::vector<config::DeviceRef>{{"1"}};
  labels = labels_of(config, node(2));
  EXPECT_EQ(labels["nvidia.com/gpu.replicas"], "1");
  EXPECT_EQ(labels["nvidia.com/gpu.sharing-strategy"], "none");
  EXPECT_EQ(labels["nvidia.com/mps.capable"], "true");
}

TEST(LabelsTest, SlotsOfAMemoryAreCountedAndOneSlotOfMpsIsSaid) {
  Config config = shared(SharingStrategy::kMps, 0);
  config.sharing.resources[0].slot_memory = gib(4);
  EXPECT_EQ(labels_of(config, node(1))["nvidia.com/gpu.replicas"], "35");
  Labels labels = labels_of(shared(SharingStrategy::kMps, 1), node(1));
  EXPECT_EQ(labels["nvidia.com/gpu.replicas"], "1");
  EXPECT_EQ(labels["nvidia.com/gpu.sharing-strategy"], "mps");
  EXPECT_EQ(labels["nvidia.com/gpu.product"], "NVIDIA-H200");
  EXPECT_EQ(labels["nvidia.com/mps.capable"], "true") << "NVIDIA's program refuses such a file";
}

}  // namespace label_test
}  // namespace tranche::labels
