#include "mps/partitions.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace partitions_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::string kGpu = "GPU-3f2a1b4c-0000-1111-2222-333344445555";

TEST(Partitions, DivideTheChunksOfAGpuAmongItsSlots) {
  EXPECT_EQ(plan_chunks({9, 0}, 132, 4).value(), (ChunkPlan{8, 16, 4, 4})) << "132 SMs are 16 chunks of 8 and 4 more";
  EXPECT_EQ(plan_chunks({9, 0}, 132, 5).value(), (ChunkPlan{8, 16, 3, 12}));
  EXPECT_EQ(plan_chunks({8, 0}, 108, 10).value(), (ChunkPlan{4, 27, 2, 28}));
  EXPECT_EQ(plan_chunks({9, 0}, 132, 16)->per_slot, 1u);
}

// Promise: mps/tier-static: Partitions never add up to more than the GPU.
TEST(Partitions, NeverAddUpToMoreThanTheGpu) {
  for (std::uint32_t slots = 1; slots <= 48; ++slots) {
    const auto plan = plan_chunks({9, 0}, 132, slots);
    if (slots > 16) {
      ASSERT_FALSE(plan);
      EXPECT_THAT(plan.error().what, HasSubstr("write replicas: 16 or less"));
      continue;
    }
    ASSERT_TRUE(plan);
    EXPECT_EQ(slots * plan->per_slot * plan->chunk_sms + plan->unused_sms, 132u);
  }
}

TEST(Partitions, NeedAmpereAndKnownSms) {
  EXPECT_EQ(plan_chunks({7, 5}, 40, 2).error().kind, Kind::kUnsupported);
  EXPECT_THAT(plan_chunks({7, 5}, 40, 2).error().what, HasSubstr("this GPU has 7.5"));
  EXPECT_FALSE(plan_chunks({9, 0}, 0, 2));
}

TEST(Partitions, AreCommandedByUuid) {
  EXPECT_EQ(command::add_partition(kGpu, 4), "sm_partition add " + kGpu + " 4");
  EXPECT_EQ(command::remove_partition(kGpu, "UWXm"), "sm_partition rm " + kGpu + " UWXm");
  EXPECT_EQ(command::list_partitions(), "lspart");
}

TEST(Partitions, AreReadFromTheReplyAloneOrAfterWords) {
  const PartitionId id{kGpu, "UWXm"};
  EXPECT_EQ(parse_added_partition(kGpu + "/UWXm\n").value(), id);
  EXPECT_EQ(parse_added_partition("Partition " + kGpu + "/UWXm created\n").value(), id);
  EXPECT_EQ(parse_partition_id(to_string(id)).value(), id);
  for (const char* bad : {"", "not enough chunks", "GPU-1/", "GPU-1", "GPU-1/a GPU-2/b", "GPU-1/a;b", "/a"})
    EXPECT_FALSE(parse_added_partition(bad)) << bad;
}

TEST(Partitions, AreListedWithWhatIsFree) {
  const auto rows = parse_partitions(
      "GPU  Partition  free  used  free  used  clients\n"
      "                chunk chunk SM    SM\n" +
      kGpu + "  -  12  4  100  32  -\n" + kGpu + "  UWXm  -  4  -  32  Yes\n");
  ASSERT_TRUE(rows) << to_string(rows.error());
  EXPECT_THAT(*rows, ElementsAre(PartitionRow{kGpu, std::nullopt, 12, 4, 100, 32, false},
                                 PartitionRow{kGpu, "UWXm", 0, 4, 0, 32, true}));
  EXPECT_THAT(parse_partitions("").value(), SizeIs(0));
  for (const std::string bad : {"Not enough privilege", "GPU-1 - 1 2 3", "GPU-1 - x 2 3 4 -", "GPU-1 - 1 2 3 4 maybe"})
    EXPECT_FALSE(parse_partitions(bad)) << bad;
}

}  // namespace partitions_test
}  // namespace tranche::mps
