// A pool in the static tier, with the stand-in daemon of release 590: partitions made, read back and made again.
#include <filesystem>

#include "host/mps/leftover.h"
#include "host/mps/pool_fixture.h"
#include "mps/partition_book.h"

namespace tranche::host {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

mps::PartitionBook four_slots() {
  return mps::cut(kUuid, mps::plan_chunks({9, 0}, 132, 4).value(), 4);
}

class StaticPoolTest : public PoolTest {
 protected:
  void SetUp() override {
    PoolTest::SetUp();
    const auto dir = Dir::open(scratch_.path());
    ASSERT_TRUE(
        dir->write_atomically("node.yaml", "driver: 590.44.01\ngpus:\n  - profile: H200\n    uuid: " + kUuid + "\n"));
  }
  PoolSettings settings() override {
    auto s = PoolTest::settings();
    s.tier = mps::Tier::kStatic;
    s.binary.env.insert(more_.begin(), more_.end());
    return s;
  }
  static mps::DaemonLimits limits(const mps::PartitionBook& book) {
    auto l = kLimits;
    l.partitions = mps::wanted(book);
    return l;
  }
  void serve(const mps::PartitionBook& book) {
    open_pool();
    pool_->want(limits(book));
    ASSERT_TRUE(until_state(mps::State::kServing)) << pool_->supervisor().reason;
  }
  mps::PartitionBook settled(mps::PartitionBook book) const {
    mps::settle(book, pool_->supervisor().read_back->partitions);
    return book;
  }
  std::map<std::string, std::string> more_;
};

TEST_F(StaticPoolTest, ServesWithAPartitionForEverySlot) {
  serve(four_slots());
  const auto book = settled(four_slots());
  for (const auto& one : book.partitions) EXPECT_NE(one.partition, "");
  EXPECT_THAT(tell("lspart"), HasSubstr(book.partitions[3].partition));
  EXPECT_EQ(pool_->supervisor().read_back->threads, "10.0") << "the limits of v2 stay in force beside them";
  EXPECT_EQ(tier_of_leftover(settings().paths, "gpu-3f2a1b4c"), mps::Tier::kStatic);
  std::filesystem::create_directories(scratch_ / "other/pools/gpu-3f2a1b4c/pipe");
  EXPECT_EQ(tier_of_leftover({scratch_ / "other"}, "gpu-3f2a1b4c"), std::nullopt) << "a daemon of another MPS root";
}

TEST_F(StaticPoolTest, MakesTheSamePartitionsForANewDaemon) {
  serve(four_slots());
  const auto before = settled(four_slots());
  const pid_t pid = pool_->daemon_pid();
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != pid && pool_->supervisor().state == mps::State::kServing; }));
  EXPECT_EQ(settled(four_slots()), before) << "the stand-in names the same chunks alike";
}

TEST_F(StaticPoolTest, SaysWhichNamesAreNoMoreWhereANewDaemonGivesOthers) {
  more_["TRANCHE_SIM_PARTITION_IDS"] = "fresh";
  serve(four_slots());
  auto book = settled(four_slots());
  book.partitions[1].promised = book.partitions[1].partition;
  const pid_t pid = pool_->daemon_pid();
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != pid && pool_->supervisor().state == mps::State::kServing; }));
  const std::string was = kUuid + "/" + book.partitions[1].promised;
  EXPECT_THAT(mps::broken_promises(settled(book)), ::testing::ElementsAre(was));
}

TEST_F(StaticPoolTest, AdoptsADaemonWithItsPartitionsAndTouchesNone) {
  serve(four_slots());
  const auto before = settled(four_slots());
  const pid_t pid = pool_->daemon_pid();
  pool_.reset();
  serve(before);
  EXPECT_EQ(pool_->daemon_pid(), pid);
  EXPECT_EQ(settled(before), before);
}

TEST_F(StaticPoolTest, JoinsPartitionsWhileNobodyComputes) {
  serve(four_slots());
  const auto before = settled(four_slots());
  const auto joined = mps::regrouped(before, {0, 1}).value();
  pool_->want(limits(joined));
  ASSERT_TRUE(until_state(mps::State::kServing)) << pool_->supervisor().reason;
  const auto after = settled(joined);
  EXPECT_EQ(after.partitions[1].partition, before.partitions[2].partition) << "the others stay";
  EXPECT_THAT(tell("lspart"), HasSubstr(after.partitions[0].partition));
  EXPECT_THAT(tell("lspart"), Not(HasSubstr(before.partitions[0].partition)));
}

TEST_F(StaticPoolTest, JoinsPartitionsWithoutLeavingService) {
  serve(four_slots());
  const auto before = settled(four_slots());
  const auto joined = mps::regrouped(before, {0, 1}).value();
  history_.clear();
  std::optional<Status> done;
  pool_->change(limits(joined), 5s, [&](const Status& status) { done = status; });
  ASSERT_TRUE(until([&] { return done.has_value(); }));
  ASSERT_TRUE(*done) << to_string(done->error());
  for (const auto& s : history_) EXPECT_EQ(s.state, mps::State::kServing) << s.reason;
  EXPECT_EQ(settled(joined).partitions[1].partition, before.partitions[2].partition);
  done.reset();
  pool_->change(limits(mps::cut(kUuid, {8, 16, 9, 0}, 4)), 5s, [&](const Status& status) { done = status; });
  ASSERT_TRUE(until([&] { return done.has_value(); }));
  EXPECT_FALSE(*done) << "36 of 16 chunks";
  ASSERT_TRUE(until_state(mps::State::kServing));
  ASSERT_TRUE(until([&] { return mps::disagreement(limits(joined), *pool_->supervisor().read_back).empty(); }))
      << "everything is as it was";
}

TEST_F(StaticPoolTest, AClientRunsOnTheSmsOfItsPartition) {
  serve(four_slots());
  auto env = pool_->environment();
  env[mps::kPartitionVariable] = kUuid + "/" + settled(four_slots()).partitions[2].partition;
  auto client = Process::start(
      *loop_, {.argv = {standins() + "/sim-cuda", "--hold"}, .env = env, .kill_on_drop = true},
      [this](const std::string& line) { output_.push_back(line); }, [](ExitNote) {});
  ASSERT_TRUE(client);
  ASSERT_TRUE(until([&] { return !output_.empty(); }));
  EXPECT_THAT(output_[0], HasSubstr("\"runs_on\":32"));
  clients_.push_back(*std::move(client));
  // While it runs nothing is changed, and what was asked for is said to be not in force.
  const std::string before = tell("lspart");
  pool_->want(limits(mps::regrouped(settled(four_slots()), {0, 1}).value()));
  ASSERT_TRUE(until([&] { return pool_->supervisor().state == mps::State::kBackingOff; }));
  EXPECT_THAT(pool_->supervisor().reason, HasSubstr("only while no client runs on the GPU"));
  EXPECT_EQ(tell("lspart"), before);
  EXPECT_TRUE(runs(clients_[0]->ref().pid));
}

class StaticPoolProofTest : public StaticPoolTest {
 protected:
  PoolSettings settings() override {
    auto s = StaticPoolTest::settings();
    s.proof_program = {std::string(std::getenv("TRANCHE_BUILD")) + "/src/host/mps/tranche_probe_alone"};
    s.proof.deadline = 10s;
    s.binary.env["LD_LIBRARY_PATH"] = standins();
    return s;
  }
};

TEST_F(StaticPoolProofTest, IsProvenInAPartition) {
  serve(four_slots());
  ASSERT_TRUE(until([&] { return pool_->proof().state == mps::ProofState::kProven; })) << pool_->reason();
  EXPECT_EQ(pool_->state_word(), "serving");
}

}  // namespace
}  // namespace tranche::host
