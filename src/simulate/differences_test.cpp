#include "simulate/land.h"

#include <gmock/gmock.h>

namespace tranche::simulate {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Labels = std::map<std::string, std::string>;

plan::Plan plan_of(std::uint32_t gpus, std::uint32_t slots) {
  plan::Plan plan;
  plan::PlannedResource resource;
  resource.name = resource.original_name = "nvidia.com/gpu";
  resource.sharing = config::SharingStrategy::kMps;
  resource.replicas = slots;
  for (std::uint32_t i = 0; i < gpus; ++i) {
    plan::PlannedDevice device;
    device.uuid = device.gpu_uuid = "GPU-" + std::to_string(i);
    device.index = std::to_string(i);
    device.replicated = true;
    device.slots = slots;
    device.memory = mib(40000);
    device.sm_count = 108;
    device.share = {mib(40000 / slots), Percent::whole(100 / slots), 0};
    device.pool = "gpu-" + std::to_string(i);
    resource.devices.push_back(device);
    plan.pools.push_back({device.pool, {device.uuid}, {{device.uuid, {}}}});
  }
  plan.resources.push_back(resource);
  return plan;
}

std::vector<Difference> between(const plan::Plan& before, const plan::Plan& after) {
  const Labels none;
  return compare({before, none}, {after, none});
}

TEST(Compare, EqualPlansHaveNoDifference) {
  EXPECT_THAT(between(plan_of(2, 4), plan_of(2, 4)), IsEmpty());
}

TEST(Compare, WhatIsAlikeOnSeveralGpusIsOneDifference) {
  const auto found = between(plan_of(3, 4), plan_of(3, 10));
  EXPECT_THAT(found, Contains(Difference{"nvidia.com/gpu", {}, "slots", "12", "30"}));
  EXPECT_THAT(found, Contains(Difference{"nvidia.com/gpu", {}, "slots of a device", "4", "10"}));
  EXPECT_THAT(found, Contains(Difference{"nvidia.com/gpu", {"0", "1", "2"}, "slots", "4", "10"}));
  EXPECT_THAT(found,
              Contains(Difference{"nvidia.com/gpu", {"0", "1", "2"}, "memory of a slot (MiB)", "10000", "4000"}));
}

TEST(Compare, WhatComesAndGoesIsSaidAsAWhole) {
  auto renamed = plan_of(1, 4);
  renamed.resources[0].name = "nvidia.com/gpu.shared";
  EXPECT_THAT(between(plan_of(1, 4), renamed), ElementsAre(Difference{"nvidia.com/gpu", {}, "", "4 slots", ""},
                                                           Difference{"nvidia.com/gpu.shared", {}, "", "", "4 slots"}));
  const auto fewer = between(plan_of(2, 4), plan_of(1, 4));
  EXPECT_THAT(fewer, Contains(Difference{"nvidia.com/gpu", {"1"}, "", "4 slots", ""}));
  EXPECT_THAT(fewer, Contains(Difference{"pool gpu-1", {}, "", "GPU-1", ""}));
}

TEST(Compare, PoolsLabelsNotesAndWhatIsLeftOutCountToo) {
  auto before = plan_of(1, 4);
  auto after = before;
  after.pools[0].max_clients = 60;
  after.pools[0].limits[0].client.memory = mib(10);
  before.notes = {"a", "b"};
  after.notes = {"b", "c"};
  after.left_out = {{"GPU 1", "gone"}};
  EXPECT_THAT(
      compare({before, Labels{{"k", "1"}, {"gone", ""}}}, {after, Labels{{"k", "2"}}}),
      ElementsAre(Difference{"pool gpu-0", {}, "GPU-0: a client's memory (MiB)", "0", "10"},
                  Difference{"pool gpu-0", {}, "clients at most", "48", "60"}, Difference{"label gone", {}, "", "", ""},
                  Difference{"label k", {}, "", "1", "2"}, Difference{"left out", {}, "", "", "GPU 1: gone"},
                  Difference{"note", {}, "", "a", ""}, Difference{"note", {}, "", "", "c"}));
}

TEST(Compare, APolicyThatShowsOnlyInSeveralSlotsIsFound) {
  auto before = plan_of(1, 7);
  auto after = before;
  for (auto* plan : {&before, &after}) {
    auto& device = plan->resources[0].devices[0];
    device.compute_capability = {9, 0};
    device.sm_count = 132;
    device.memory = mib(143771);
  }
  before.resources[0].devices[0].policy.rounding = config::SmRounding::kUp;
  after.resources[0].devices[0].policy.rounding = config::SmRounding::kDown;
  const auto found = between(before, after);
  EXPECT_THAT(
      found, Contains(Difference{
                 "nvidia.com/gpu", {"0"}, "limits of 2 slots", "41077 MiB, SMs 62 (47 %)", "41077 MiB, SMs 34 (27 %)"}))
      << "of one slot both say the same";
}

// Promise: plan/simulate: Different plans never compare as equal.
TEST(Compare, APlanIsNeverTakenForEqualWhenItIsNot) {
  const auto before = plan_of(1, 1);
  auto after = before;
  after.resources[0].devices[0].compute_capability = {8, 0};
  EXPECT_EQ(between(before, after).size(), 1u);
}

PodOutcome outcome_of(std::string name, Fate fate, std::uint32_t slots = 0, std::string gpu = "0") {
  PodOutcome outcome{"default", std::move(name), fate, {}, {}, {}, {}};
  if (fate == Fate::kLands)
    outcome.holdings.push_back({"main", Role::kMain, "nvidia.com/gpu", "", {}, {{"u", gpu, slots, {mib(100), {}, 8}}}});
  return outcome;
}

TEST(Compare, PodsThatLandOtherwiseAreNamed) {
  Simulation before;
  Simulation after;
  before.pods = {outcome_of("a", Fate::kLands, 2), outcome_of("b", Fate::kLands, 2), outcome_of("c", Fate::kLands, 1),
                 outcome_of("gone", Fate::kWaits)};
  after.pods = {outcome_of("a", Fate::kLands, 2), outcome_of("b", Fate::kLands, 2, "1"),
                outcome_of("c", Fate::kRefused)};
  EXPECT_THAT(compare(before, after),
              ElementsAre(Difference{"pod default/b",
                                     {},
                                     "",
                                     "2 nvidia.com/gpu on GPU 0, 100 MiB, 8 SMs",
                                     "2 nvidia.com/gpu on GPU 1, 100 MiB, 8 SMs"},
                          Difference{"pod default/c", {}, "", "1 nvidia.com/gpu on GPU 0, 100 MiB, 8 SMs", "refused"},
                          Difference{"pod default/gone", {}, "", "waits", ""}));
  EXPECT_THAT(compare(before, before), IsEmpty());
}

}  // namespace
}  // namespace tranche::simulate
