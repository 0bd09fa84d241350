#include "agent/mps/partition_keeper.h"

#include <gmock/gmock.h>

#include "host/files/scratch.h"

namespace tranche::agent {
namespace partition_keeper_test {

using ::testing::HasSubstr;

const std::string kGpu = "GPU-3f2a1b4c-0000-1111-2222-333344445555";

mps::PartitionBook slots(std::uint32_t count) {
  return mps::cut(kGpu, mps::plan_chunks({9, 0}, 132, count).value(), count);
}

class PartitionKeeperTest : public ::testing::Test {
 protected:
  void open(std::uint32_t count = 4) {
    auto keeper = PartitionKeeper::open(scratch_.path(), slots(count),
                                        [this](const std::vector<mps::WantedPartition>& wanted,
                                               std::function<void(Result<std::vector<mps::PartitionRow>>)> done) {
                                          told_.push_back(wanted.size());
                                          changed_ = std::move(done);
                                        });
    ASSERT_TRUE(keeper) << to_string(keeper.error());
    keeper_ = *std::move(keeper);
  }
  static std::vector<mps::PartitionRow> rows(const std::vector<std::pair<std::string, std::uint32_t>>& named) {
    std::vector<mps::PartitionRow> list;
    for (const auto& [name, chunks] : named) list.push_back({kGpu, name, 0, chunks, 0, chunks * 8, false});
    return list;
  }
  // A daemon that serves with four partitions of one size.
  void serve(const std::vector<std::string>& names) {
    daemon_.state = mps::State::kServing;
    daemon_.read_back = mps::LimitsReadBack{};
    daemon_.read_back->partitions = rows({{names[0], 4}, {names[1], 4}, {names[2], 4}, {names[3], 4}});
    keeper_->look(daemon_);
  }
  // "" as long as there is no answer; an error's words otherwise.
  void give(mps::Slots wanted) {
    answer_.clear();
    keeper_->give(std::move(wanted), daemon_,
                  [this](const Result<std::string>& id) { answer_ = id ? *id : to_string(id.error()); });
  }

  host::Scratch scratch_;
  std::unique_ptr<PartitionKeeper> keeper_;
  mps::Supervisor daemon_;
  std::string answer_;
  std::vector<std::size_t> told_;  // how many partitions it should be
  std::function<void(Result<std::vector<mps::PartitionRow>>)> changed_;
};

TEST_F(PartitionKeeperTest, GivesASlotTheSamePartitionEachTimeAndAfterARestart) {
  open();
  serve({"aa", "bb", "cc", "dd"});
  give({2});
  EXPECT_EQ(answer_, kGpu + "/cc");
  open();
  serve({"aa", "bb", "cc", "dd"});
  give({2});
  EXPECT_EQ(answer_, kGpu + "/cc");
  EXPECT_TRUE(told_.empty());
}

TEST_F(PartitionKeeperTest, HasNothingToGiveBeforeTheDaemonServes) {
  open();
  give({0});
  EXPECT_THAT(answer_, HasSubstr("does not serve"));
}

TEST_F(PartitionKeeperTest, JoinsSlotsAndAnswersWhenTheDaemonHasDoneIt) {
  open();
  serve({"aa", "bb", "cc", "dd"});
  give({2, 1});
  EXPECT_EQ(answer_, "");
  EXPECT_EQ(told_, std::vector<std::size_t>{3});
  const auto first = std::exchange(changed_, {});
  give({0});
  EXPECT_THAT(answer_, HasSubstr("are being joined; ask again"));
  answer_.clear();
  first(rows({{"aa", 4}, {"ee", 8}, {"dd", 4}}));
  EXPECT_EQ(answer_, kGpu + "/ee");
  open();
  EXPECT_EQ(keeper_->wanted().size(), 3u) << "kept over a restart";
  give({0});
  EXPECT_EQ(answer_, kGpu + "/aa");
}

// Promise: mps/tier-static: Partitions join while no client computes and not while one does.
TEST_F(PartitionKeeperTest, RefusesToJoinWhileAClientRuns) {
  open();
  serve({"aa", "bb", "cc", "dd"});
  daemon_.servers = {{.pid = 9, .status = "ACTIVE", .clients = {101}}};
  give({1, 2});
  EXPECT_THAT(answer_, HasSubstr("2 slots need a partition of their own, which is made only while no client runs"));
  EXPECT_TRUE(told_.empty());
  give({1});
  EXPECT_EQ(answer_, kGpu + "/bb");
}

// Promise: mps/tier-static: When the daemon refuses, partitions are as before.
TEST_F(PartitionKeeperTest, GoesBackToWhatWasWhenTheDaemonRefuses) {
  open();
  serve({"aa", "bb", "cc", "dd"});
  give({1, 2});
  changed_(fail(Kind::kUnavailable, "the control daemon made 0 of 1 SM partitions"));
  EXPECT_THAT(answer_, HasSubstr("would not make one partition of 2 slots: the control daemon made 0 of 1"));
  EXPECT_EQ(keeper_->wanted().size(), 4u);
  give({1});
  EXPECT_EQ(answer_, kGpu + "/bb");
}

TEST_F(PartitionKeeperTest, KeepsTheCutOfBeforeUntilNobodyHoldsASlot) {
  open();
  serve({"aa", "bb", "cc", "dd"});
  open(2);
  EXPECT_FALSE(keeper_->plan(slots(2), false));
  EXPECT_EQ(keeper_->wanted().size(), 4u);
  EXPECT_THAT(keeper_->note(), HasSubstr("cut for 4 slots of 4 chunks until no grant of before is left"));
  EXPECT_TRUE(keeper_->plan(slots(2), true));
  EXPECT_EQ(keeper_->wanted().size(), 2u);
  EXPECT_EQ(keeper_->note(), "");
}

TEST_F(PartitionKeeperTest, NamesTheContainersWhosePartitionHasAnotherName) {
  open();
  serve({"aa", "bb", "cc", "dd"});
  give({1});
  serve({"ee", "ff", "gg", "hh"});
  EXPECT_THAT(keeper_->note(), HasSubstr("start the containers anew that have " + kGpu + "/bb"));
  give({1});
  EXPECT_EQ(keeper_->note(), "") << "the new container has the new name";
}

TEST_F(PartitionKeeperTest, ReplacesABookThatCannotBeRead) {
  const auto dir = host::Dir::open(scratch_.path());
  ASSERT_TRUE(dir->write_atomically("partitions.json", "{"));
  open();
  EXPECT_EQ(keeper_->wanted().size(), 4u);
}

}  // namespace partition_keeper_test
}  // namespace tranche::agent
