#include "dra/dra_devices.h"

#include <gmock/gmock.h>

#include <functional>

#include "gpu/models/models.h"

namespace tranche::dra {
namespace partition_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<std::string> names(const std::vector<PlacedProfile>& partitions) {
  std::vector<std::string> all;
  for (const auto& [profile, partition] : partitions)
    all.push_back(profile->name + "@" + std::to_string(partition.instance.place.start));
  return all;
}

PartitionableGpu gpu_of(const char* model) {
  return {gpu::find_model(model)->profiles, {}};
}

// Promise: dra/partitions: The counters of a GPU and of an instance are the driver's figures, under NVIDIA's names.
TEST(Partitions, CountersAreTheFiguresOfTheProfiles) {
  const auto gpu = gpu_of("A100-PCIE-40GB");
  const auto partitions = partitions_of(gpu);
  const auto& first = partitions.front();
  EXPECT_EQ(first.profile->name, "1g.5gb");
  EXPECT_EQ(
      first.partition.takes,
      (Counters{
          {"memory", first.profile->memory_mib}, {"multiprocessors", 14}, {"copy-engines", 1}, {"memory-slice-6", 1}}));
  const auto& all = first.partition.of_gpu;
  EXPECT_THAT(all,
              AllOf(Contains(Pair("multiprocessors", 98)), Contains(Pair("copy-engines", 7)),
                    Contains(Pair("decoders", 5)), Contains(Pair("jpeg-engines", 1)), Contains(Pair("ofa-engines", 1)),
                    Contains(Pair("memory-slice-0", 1)), Contains(Pair("memory-slice-7", 1))));
  EXPECT_EQ(all.count("memory-slice-8"), 0u);
}

// Promise: dra/partitions: The scheduler's first fit takes the instance that leaves the most room.
TEST(Partitions, ComeInTheOrderThatLeavesTheMostRoom) {
  const auto gpu = gpu_of("A100-PCIE-40GB");
  EXPECT_THAT(names(partitions_of(gpu)),
              ElementsAre("1g.5gb@6", "1g.5gb@4", "1g.5gb@5", "1g.5gb@0", "1g.5gb@1", "1g.5gb@2", "1g.5gb@3",
                          "1g.5gb+me@6", "1g.5gb+me@4", "1g.5gb+me@5", "1g.5gb+me@0", "1g.5gb+me@1", "1g.5gb+me@2",
                          "1g.5gb+me@3", "1g.10gb@6", "1g.10gb@4", "1g.10gb@0", "1g.10gb@2", "2g.10gb@4", "2g.10gb@0",
                          "2g.10gb@2", "3g.20gb@4", "3g.20gb@0", "4g.20gb@0", "7g.40gb@0"));
}

// Promise: dra/partitions: An instance that was not made for a claim takes its part, and the devices stay.
TEST(Partitions, AnInstanceOfAnotherProgramTakesItsPart) {
  auto gpu = gpu_of("A100-PCIE-40GB");
  const auto before = partitions_of(gpu);
  gpu.foreign = {{9, 3, {4, 4}}};
  const auto after = partitions_of(gpu);
  EXPECT_EQ(names(after), names(before));
  const auto left = after.front().partition.of_gpu;
  EXPECT_THAT(left, AllOf(Contains(Pair("memory-slice-3", 1)), Contains(Pair("memory-slice-4", 0)),
                          Contains(Pair("memory-slice-7", 0)), Contains(Pair("multiprocessors", 56))));
  gpu.foreign = {{4711, 0, {6, 1}}};  // of a profile that the driver does not list
  EXPECT_THAT(partitions_of(gpu).front().partition.of_gpu,
              AllOf(Contains(Pair("memory-slice-6", 0)), Contains(Pair("multiprocessors", 98))));
}

TEST(Partitions, PlacesThatCannotBeAreLeftOut) {
  PartitionableGpu gpu;
  gpu.profiles = {{.id = 1,
                   .name = "1g.5gb",
                   .slices = 1,
                   .memory_mib = 1,
                   .sm_count = 1,
                   .at_most = 0,
                   .placements = {{0, 0}, {23, 1}, {23, 2}, {24, 1}, {0xffffffff, 0xffffffff}}}};
  EXPECT_THAT(names(partitions_of(gpu)), ElementsAre("1g.5gb@23"));
}

using Set = std::vector<const PlacedProfile*>;

// Sets of instances whose places are apart, by depth-first search.
void search(const std::vector<PlacedProfile>& all, std::size_t from, Set& chosen, std::size_t& budget,
            const std::function<void(const Set&)>& check) {
  if (budget == 0) return;
  --budget;
  check(chosen);
  for (std::size_t i = from; i < all.size(); ++i) {
    const auto& place = all[i].partition.instance.place;
    const bool apart = std::ranges::none_of(
        chosen, [&](const PlacedProfile* other) { return mig::overlap(other->partition.instance.place, place); });
    if (!apart) continue;
    chosen.push_back(&all[i]);
    search(all, i + 1, chosen, budget, check);
    chosen.pop_back();
  }
}

// "": by the counters they fit together.
std::string exceeded(const Set& set, const Counters& all) {
  Counters taken;
  for (const auto* one : set)
    for (const auto& [name, value] : one->partition.takes) taken[name] += value;
  for (const auto& [name, value] : taken)
    if (value > all.at(name)) return name;
  return "";
}

// Promise: dra/partitions: On every GPU model, the counters accept what fits together, and nothing that cannot be made.
TEST(Partitions, TheCountersAcceptWhatFitsOnTheGpu) {
  for (const auto& model : gpu::mig_models()) {
    SCOPED_TRACE(model.key);
    const PartitionableGpu gpu{model.profiles, {}};
    const auto partitions = partitions_of(gpu);
    ASSERT_FALSE(partitions.empty());
    const auto all = partitions.front().partition.of_gpu;
    ASSERT_LE(all.size(), 32u);
    Set chosen;
    std::size_t budget = 3'000;
    search(partitions, 0, chosen, budget, [&](const Set& set) {
      if (HasFailure()) return;
      std::string text;
      std::map<const mig::Profile*, std::uint32_t> counts;
      std::uint32_t with_attributes = 0;  // such as media engines, of which a GPU has one set
      for (const auto* one : set) {
        text += one->profile->name + " ";
        ++counts[one->profile];
        if (one->profile->name.contains('+')) ++with_attributes;
        if (one->profile->name.contains("+me.all")) ++with_attributes;  // nothing is left for plain ones
      }
      const bool made = std::ranges::all_of(counts, [](const auto& one) { return one.second <= one.first->at_most; });
      const auto why_not = exceeded(set, all);
      EXPECT_TRUE(made || !why_not.empty()) << "the driver does not make " << text;
      EXPECT_TRUE(!made || with_attributes > 1 || why_not.empty()) << why_not << " refuses " << text;
    });
    if (HasFailure()) return;
  }
}

}  // namespace partition_test
}  // namespace tranche::dra
