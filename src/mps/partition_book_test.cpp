#include "mps/partition_book.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace partition_book_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kGpu = "GPU-3f2a1b4c-0000-1111-2222-333344445555";

PartitionBook four_slots() {
  return cut(kGpu, plan_chunks({9, 0}, 132, 4).value(), 4);
}
PartitionRow row(const std::string& partition, std::uint32_t chunks) {
  return {kGpu.substr(0, 22), partition, 0, chunks, 0, chunks * 8, false};
}
std::vector<Slots> groups(const PartitionBook& book) {
  std::vector<Slots> all;
  for (const auto& one : book.partitions) all.push_back(one.slots);
  return all;
}

TEST(PartitionBook, BeginsWithAPartitionForEachSlot) {
  const auto book = four_slots();
  EXPECT_THAT(groups(book), ElementsAre(Slots{0}, Slots{1}, Slots{2}, Slots{3}));
  EXPECT_EQ(wanted(book), std::vector<WantedPartition>(4, {kGpu, 4, 32}));
}

TEST(PartitionBook, JoinsSlotsForWhoHoldsExactlyThoseAndPartsThemAgain) {
  auto book = four_slots();
  settle(book, {row("aa", 4), row("bb", 4), row("cc", 4), row("dd", 4)});
  const auto joined = regrouped(book, {1, 3}).value();
  EXPECT_THAT(groups(joined), ElementsAre(Slots{0}, Slots{1, 3}, Slots{2}));
  EXPECT_EQ(joined.partitions[0].partition, "aa") << "what is not asked for stays as it is";
  EXPECT_EQ(joined.partitions[1].partition, "");
  EXPECT_EQ(wanted(joined)[1], (WantedPartition{kGpu, 8, 64}));
  const auto parted = regrouped(joined, {1}).value();
  EXPECT_THAT(groups(parted), ElementsAre(Slots{0}, Slots{1}, Slots{2}, Slots{3}));
  EXPECT_THAT(regrouped(book, {2, 4}).error().what, HasSubstr("slot 4 is none of them"));
  EXPECT_FALSE(regrouped(book, {}));
}

TEST(PartitionBook, RemovesOnlyThePartitionsThatAreJoined) {
  auto book = four_slots();
  const std::vector<PartitionRow> rows{row("aa", 4), row("bb", 4), row("cc", 4), row("dd", 4)};
  settle(book, rows);
  const auto changes = partition_changes(wanted(regrouped(book, {1, 2}).value()), rows);
  EXPECT_THAT(changes.commands, ElementsAre("sm_partition rm " + kGpu + " bb", "sm_partition rm " + kGpu + " cc",
                                            "sm_partition add " + kGpu + " 8"));
  EXPECT_EQ(changes.made, 1u);
}

TEST(PartitionBook, KeepsNamesAcrossRowsInAnyOrder) {
  auto book = four_slots();
  settle(book, {row("aa", 4), row("bb", 4), row("cc", 4), row("dd", 4)});
  const auto before = book;
  settle(book, {row("dd", 4), row("bb", 4), row("aa", 4), row("cc", 4)});
  EXPECT_EQ(book, before);
  settle(book, {row("aa", 4), row("cc", 4), row("dd", 4)});
  EXPECT_EQ(book.partitions[1].partition, "") << "one that is not listed is not there";
  EXPECT_EQ(book.partitions[2].partition, "cc");
}

TEST(PartitionBook, SaysWhichNamesContainersHoldInVain) {
  auto book = four_slots();
  settle(book, {row("aa", 4), row("bb", 4), row("cc", 4), row("dd", 4)});
  find_partition(book, {1})->promised = "bb";
  EXPECT_THAT(broken_promises(book), IsEmpty());
  settle(book, {row("xx", 4), row("bb", 4), row("yy", 4), row("zz", 4)});
  EXPECT_THAT(broken_promises(book), IsEmpty()) << "the same name is the same partition's";
  settle(book, {row("ww", 4), row("xx", 4), row("yy", 4), row("zz", 4)});
  EXPECT_THAT(broken_promises(book), ElementsAre(kGpu + "/bb"));
  settle(book, {row("bb", 4), row("xx", 4), row("yy", 4), row("zz", 4)});
  EXPECT_EQ(find_partition(book, {1})->partition, "bb") << "whoever was promised a name gets it, wherever it is listed";
  EXPECT_THAT(broken_promises(book), IsEmpty());
}

TEST(PartitionBook, IsReadAsItWasWritten) {
  auto book = regrouped(four_slots(), {1, 3}).value();
  book.partitions[1].partition = "bb";
  book.partitions[1].promised = "bb";
  EXPECT_EQ(parse_book(render_book(book)).value(), book);
  EXPECT_TRUE(is_cut_alike(book, four_slots()));
  EXPECT_FALSE(is_cut_alike(book, cut(kGpu, plan_chunks({9, 0}, 132, 5).value(), 5)));
}

TEST(PartitionBook, ThatIsNotUnderstoodIsNamed) {
  const auto why = [](const std::string& text) { return parse_book(text).error().what; };
  const std::string head = R"({"uuid":")" + kGpu + R"(","slots":2,"chunksPerSlot":4,"smsPerChunk":8,"partitions":)";
  EXPECT_THAT(why("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(why(R"({"uuid":"me"})"), HasSubstr("must name a GPU"));
  EXPECT_THAT(why(R"({"uuid":")" + kGpu + R"(","slots":0})"), HasSubstr("\"slots\" must be a number from 1"));
  EXPECT_THAT(why(head + R"([{"slots":[0],"partition":"","promised":""}]})"), HasSubstr("1 of 2 slots"));
  EXPECT_THAT(why(head + R"([{"slots":[0,0],"partition":"","promised":""}]})"), HasSubstr("in one partition"));
  EXPECT_THAT(why(head + R"([{"slots":[0],"partition":"a b","promised":""}]})"), HasSubstr("the name of a partition"));
}

}  // namespace partition_book_test
}  // namespace tranche::mps
