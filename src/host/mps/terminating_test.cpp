// Ending clients of the stand-in daemon through MPS: processes as tenants start them, one outcome for each.
#include "host/mps/pool_fixture.h"

namespace tranche::host {
namespace {

using ::testing::HasSubstr;
using enum mps::TerminateOutcome;

class PoolTerminate : public PoolTest {
 protected:
  std::vector<mps::Terminated> terminate(const std::vector<int>& pids, Duration deadline = 5s) {
    std::optional<std::vector<mps::Terminated>> outcomes;
    pool_->terminate(pids, deadline, [&](const std::vector<mps::Terminated>& all) {
      outcomes = all;
      wake();
    });
    EXPECT_FALSE(outcomes) << "told within the call";
    EXPECT_TRUE(until([&] { return outcomes.has_value(); }));
    return outcomes.value_or(std::vector<mps::Terminated>{});
  }
};

TEST_F(PoolTerminate, EndsAClientWithWorkInFlightAndHurtsNobody) {
  serve();
  const pid_t busy = start_client({"--allocate", "1G", "--kernel-ms", "200", "--hold"});
  const pid_t peer = start_client({"--allocate", "1G", "--hold"});
  EXPECT_EQ(terminate({busy}), (std::vector<mps::Terminated>{{busy, kTerminated, ""}}));
  ASSERT_TRUE(until([&] { return !clients_[0]->running(); }));
  EXPECT_TRUE(runs(peer));
  EXPECT_EQ(pool_->counters().fatal_faults, 0u);
}

TEST_F(PoolTerminate, TellsOneOutcomeForEachProcess) {
  serve();
  const pid_t client = start_client({"--hold"});
  const auto all = terminate({client, ::getpid(), 4194300, client});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], (mps::Terminated{client, kTerminated, ""}));
  EXPECT_EQ(all[1].outcome, kNotAClient);
  EXPECT_EQ(all[2].outcome, kNotAClient);
}

TEST_F(PoolTerminate, WithoutAServerNobodyIsAClient) {
  serve();
  const auto all = terminate({::getpid()});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0], (mps::Terminated{::getpid(), kNotAClient, "this pool has no MPS server"}));
}

TEST_F(PoolTerminate, OfADaemonThatHasEndedIsToldAsSuch) {
  fast_.backoff_first = 10s;
  serve();
  ASSERT_EQ(::kill(pool_->daemon_pid(), SIGKILL), 0);
  ASSERT_TRUE(until_state(mps::State::kBackingOff));
  const auto all = terminate({::getpid()});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0], (mps::Terminated{::getpid(), kNotAClient, "the MPS control daemon has ended"}));
}

TEST_F(PoolTerminate, KeepsItsDeadlineWhenTheDaemonIsMuteAndDiesInBetween) {
  fast_.backoff_first = 10s;
  serve();
  const pid_t pid = pool_->daemon_pid();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  const auto all = terminate({1, 2}, 200ms);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].outcome, kTimedOut);
  EXPECT_THAT(all[1].note, HasSubstr("no answer within"));
  std::optional<std::vector<mps::Terminated>> outcomes;
  pool_->terminate({1}, 5s, [&](const std::vector<mps::Terminated>& some) {
    outcomes = some;
    wake();
  });
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return outcomes.has_value(); }));
  EXPECT_EQ(outcomes->at(0).outcome, kNotAClient);
}

TEST_F(PoolTerminate, IsNotTakenForSilenceOfTheDaemon) {
  fast_.question_deadline = 250ms;
  serve();
  std::vector<int> clients;
  for (int i = 0; i < 30; ++i) clients.push_back(start_client({"--hold", "--stay"}));
  history_.clear();
  // 11 ms each, one after the other: longer than a question may take.
  for (const auto& one : terminate(clients)) EXPECT_EQ(one.outcome, kTerminated) << one.note;
  for (const auto& seen : history_) EXPECT_EQ(seen.state, mps::State::kServing) << seen.reason;
}

TEST_F(PoolTerminate, RunsSeveralAtATimeOneAfterTheOther) {
  serve();
  std::vector<int> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(start_client({"--hold"}));
  std::vector<mps::Terminated> outcomes;
  for (const int pid : clients) {
    pool_->terminate({pid}, 5s, [&](const std::vector<mps::Terminated>& all) {
      outcomes.insert(outcomes.end(), all.begin(), all.end());
      wake();
    });
  }
  ASSERT_TRUE(until([&] { return outcomes.size() == clients.size(); }));
  for (std::size_t i = 0; i < clients.size(); ++i)
    EXPECT_EQ(outcomes[i], (mps::Terminated{clients[i], kTerminated, ""}));
}

}  // namespace
}  // namespace tranche::host
