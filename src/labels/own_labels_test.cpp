#include <gmock/gmock.h>

#include "labels/label_fixture.h"

namespace tranche::labels {
namespace own_labels_test {

using config::Config;
using config::SharingStrategy;
using gpu::Gpu;
using gpu::Inventory;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

TEST(OwnLabels, TheLeastLimitsOfASlotAreALabelWhereMpsShares) {
  Inventory inventory = node(2);
  inventory.gpus[0].sm_count = inventory.gpus[1].sm_count = 132;
  EXPECT_THAT(labels_of(shared(SharingStrategy::kMps, 5), inventory),
              IsSupersetOf({Pair("tranche.io/gpu.slot.sms", "30"), Pair("tranche.io/gpu.slot.memory", "28754")}));
  EXPECT_THAT(labels_of(shared(SharingStrategy::kMps, 5, true), inventory),
              Contains(Pair("tranche.io/gpu.slot.sms", "30")))
      << "under the name before renaming, as nvidia.com/gpu.… are";
  // Of two kinds, the smallest value of each, in either order.
  inventory.gpus[1].sm_count = 78;
  inventory.gpus[0].memory = mib(40960);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(labels_of(shared(SharingStrategy::kMps, 5), inventory),
                IsSupersetOf({Pair("tranche.io/gpu.slot.sms", "14"), Pair("tranche.io/gpu.slot.memory", "8192")}));
    std::swap(inventory.gpus[0].sm_count, inventory.gpus[1].sm_count);
    std::swap(inventory.gpus[0].memory, inventory.gpus[1].memory);
  }
  EXPECT_THAT(labels_of(shared(SharingStrategy::kTimeSlicing, 5), inventory), Not(Contains(Key(HasSubstr(".slot.")))));
  inventory.gpus[0].sm_count = 0;  // unknown
  EXPECT_THAT(labels_of(shared(SharingStrategy::kMps, 5), inventory), Not(Contains(Key("tranche.io/gpu.slot.sms"))));
}

// Promise: labels: Several models give one fixed answer and labels for each model.
TEST(OwnLabels, EveryModelIsCountedWhateverSharingAndMigMakeOfIt) {
  Inventory inventory = node(4);
  inventory.gpus[1].name = inventory.gpus[2].name = "Tesla T4";
  inventory.gpus[1].memory = mib(15360);
  inventory.gpus[2].memory = mib(15109);
  inventory.gpus[3].name = "NVIDIA RTX (A) 4000";
  const auto models = IsSupersetOf(
      {Pair("tranche.io/model.NVIDIA-H200.count", "1"), Pair("tranche.io/model.NVIDIA-H200.memory", "143771"),
       Pair("tranche.io/model.Tesla-T4.count", "2"), Pair("tranche.io/model.Tesla-T4.memory", "15109"),
       Pair("tranche.io/model.NVIDIA-RTX-A-4000.count", "1")});
  EXPECT_THAT(labels_of({}, inventory), models);
  EXPECT_THAT(labels_of(shared(SharingStrategy::kMps, 4), inventory), models);
  Config single;
  single.flags.mig_strategy = config::MigStrategy::kSingle;
  inventory.gpus[0].mig_enabled = true;
  const Labels labels = labels_of(single, inventory);
  EXPECT_THAT(labels, models);
  EXPECT_THAT(labels, Contains(Pair("nvidia.com/gpu.product", HasSubstr("-MIG-INVALID"))));
}

TEST(OwnLabels, AModelTooLongForAKeyIsCut) {
  Inventory inventory = node(1);
  inventory.gpus[0].name = std::string(49, 'x') + " " + std::string(40, 'y');
  EXPECT_THAT(labels_of({}, inventory), Contains(Pair("tranche.io/model." + std::string(49, 'x') + ".count", "1")));
  inventory.gpus[0].name = "()";
  EXPECT_THAT(labels_of({}, inventory), Not(Contains(Key(HasSubstr("tranche.io/model")))));
}

TEST(OwnLabels, WrongSmCountsAreAHazardThatSlotsMayBeExposedTo) {
  Inventory inventory = node(2);
  const auto hazard = [&](const Config& config) {
    const Labels labels = labels_of(config, inventory);
    const auto found = labels.find("tranche.io/hazard.sm-counts");
    return found == labels.end() ? "" : found->second;
  };
  for (Gpu& gpu : inventory.gpus) gpu.sm_count = 132;
  EXPECT_EQ(hazard({}), "avoided");
  Config config = shared(SharingStrategy::kMps, 5);
  EXPECT_EQ(hazard(config), "avoided") << "26 SMs are rounded up to 30";
  config.sharing.sm_rounding = config::SmRounding::kOff;
  EXPECT_EQ(hazard(config), "exposed");
  config.sharing.strategy = SharingStrategy::kTimeSlicing;
  EXPECT_EQ(hazard(config), "avoided") << "whoever runs has the whole GPU";
  inventory.gpus[1].sm_count = 114;
  EXPECT_EQ(hazard({}), "unmeasured");
  for (Gpu& gpu : inventory.gpus) gpu.compute_capability = {8, 0};
  EXPECT_EQ(hazard({}), "");
}

TEST(OwnLabels, AKeyThatTheApiServerWouldRefuseIsLeftOut) {
  Config config = shared(SharingStrategy::kMps, 4);
  config.sharing.resources[0].rename = "nvidia.com/" + std::string(52, 'x');
  config.sharing.resources[0].names = *config.sharing.resources[0].rename;
  Inventory inventory = node(2);
  for (Gpu& gpu : inventory.gpus) gpu.sm_count = 132;
  for (const auto& [key, value] : labels_of(config, inventory)) {
    EXPECT_TRUE(legal_key(key)) << key;
    EXPECT_TRUE(legal_value(value)) << value;
  }
}

TEST(Speaking, IsReportedWhereThereAreSeveralModels) {
  Inventory inventory = node(5);
  EXPECT_THAT(notes_for(inventory), IsEmpty());
  EXPECT_THAT(notes_for(Inventory{}), IsEmpty());
  inventory.gpus[0].name = "Tesla T4";
  inventory.gpus[4].name = "DGX Display";
  EXPECT_THAT(notes_for(inventory), ElementsAre(HasSubstr("about 3 x NVIDIA H200; of 1 x Tesla T4 they say nothing")));
}

TEST(LegalLabels, AreThoseThatTheApiServerTakes) {
  for (const char* value : {"", "a", "A-b_c.9", "1"}) EXPECT_TRUE(legal_value(value)) << value;
  for (const std::string& value :
       {std::string("-a"), std::string("a."), std::string("a b"), std::string("é"), std::string(64, 'a')})
    EXPECT_FALSE(legal_value(value)) << value;
  EXPECT_TRUE(legal_key("tranche.io/" + std::string(63, 'a')));
  for (const std::string& key :
       {std::string("tranche.io/"), "tranche.io/" + std::string(64, 'a'), std::string(), std::string("tranche.io/a/b")})
    EXPECT_FALSE(legal_key(key)) << key;
}

}  // namespace own_labels_test
}  // namespace tranche::labels
