// Terminates clients of the stand-in daemon: processes as tenants start them, one outcome for each.
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mps/pool/pool_fixture.h"
#include "os/clock/clock.h"

namespace tranche::mps {
namespace {

using ::testing::HasSubstr;
using enum TerminateOutcome;

char state_of(pid_t pid) {
  const auto sight = os::look_at_process(pid);
  return sight ? sight->state : 'X';
}

// Starts a process with this pid, as if the kernel reused it; 0 = not permitted here.
pid_t start_as(pid_t pid) {
  clone_args how{};
  how.exit_signal = SIGCHLD;
  how.set_tid = reinterpret_cast<std::uint64_t>(&pid);
  how.set_tid_size = 1;
  const long made = ::syscall(SYS_clone3, &how, sizeof how);
  if (made != 0) return made == pid ? pid : 0;
  for (;;) ::pause();
}

class PoolEnds : public PoolTest {
 protected:
  void begin(const std::vector<int>& pids) {
    outcomes_.reset();
    pool_->end_clients(pids, [&](const std::vector<Terminated>& all) {
      outcomes_ = all;
      wake();
    });
    EXPECT_FALSE(outcomes_) << "answered within the call";
  }
  std::vector<Terminated> finish() {
    EXPECT_TRUE(until([&] { return outcomes_.has_value(); }));
    return outcomes_.value_or(std::vector<Terminated>{});
  }
  std::vector<Terminated> end(const std::vector<int>& pids) {
    begin(pids);
    return finish();
  }
  std::optional<std::vector<Terminated>> outcomes_;
};

// Promise: stop: A client is stopped at once, killed after the patience, and hurts no neighbor.
TEST_F(PoolEnds, AClientWithWorkInFlightIsStoppedAtOnceKilledAfterThePatienceAndHurtsNobody) {
  serve();
  pool_->set_stop_patience(600ms);
  const pid_t busy = start_client({"--allocate", "1G", "--kernel-ms", "200", "--hold"});
  const pid_t peer = start_client({"--allocate", "1G", "--hold"});
  // The servers list it shortly after it has attached; the relay of a real pool knows it at once.
  ASSERT_TRUE(until([&] { return live_clients(pool_->supervisor()) == 2; }));
  begin({busy});
  EXPECT_TRUE(until([&] { return state_of(busy) == 'T'; }));
  const auto all = finish();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].outcome, kTerminated) << all[0].note;
  EXPECT_GE(std::stoi(all[0].note.substr(7)), 600) << all[0].note;  // "waited … ms for its queued GPU work"
  EXPECT_EQ(state_of(busy), 'X');
  EXPECT_TRUE(runs(peer));
  EXPECT_TRUE(pool_->faults().last().empty());
}

TEST_F(PoolEnds, GivesOneOutcomeForEachProcess) {
  serve();
  pool_->set_stop_patience(10ms);
  const pid_t client = start_client({"--hold"});
  const auto all = end({client, ::getpid(), 4194300, client});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].pid, client);
  EXPECT_EQ(all[0].outcome, kTerminated);
  EXPECT_EQ(all[1].outcome, kNotAClient);
  EXPECT_EQ(all[2].outcome, kNotAClient);
}

TEST_F(PoolEnds, WithoutAServerNoProcessIsAClient) {
  serve();
  const auto all = end({::getpid()});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].outcome, kNotAClient);
  EXPECT_THAT(all[0].note, HasSubstr("do not know this process"));
}

// Promise: stop: A mute daemon does not delay the end of its clients.
TEST_F(PoolEnds, AMuteDaemonDoesNotDelayTheEndOfItsClients) {
  serve();
  pool_->set_stop_patience(10ms);
  const pid_t client = start_client({"--hold"});
  ASSERT_TRUE(until([&] { return live_clients(pool_->supervisor()) == 1; }));
  ASSERT_GT(pool_->daemon_pid(), 0);
  ASSERT_EQ(::kill(pool_->daemon_pid(), SIGSTOP), 0);
  EXPECT_EQ(end({client})[0].outcome, kTerminated);
  ASSERT_EQ(::kill(pool_->daemon_pid(), SIGCONT), 0);
}

TEST_F(PoolEnds, AProcessThatWasGivenAClientsNumberIsLeftAlone) {
  fast_.health_every = fast_.rest_every = 60s;
  serve();
  pool_->set_stop_patience(10ms);
  const pid_t client = start_client({"--hold"});
  pool_->look();
  ASSERT_TRUE(until([&] { return client_pids(pool_->supervisor().servers) == std::vector<int>{client}; }));
  ASSERT_EQ(::kill(pool_->supervisor().servers[0].pid, SIGSTOP), 0) << "so that it lists the client still";
  clients_.clear();
  const auto started = os::boot_ticks();
  ASSERT_TRUE(until([&] { return !os::look_at_process(client) && os::boot_ticks() > started + 1; }))
      << "the kernel distinguishes two processes of one number by their start, in ticks of 10 ms";
  const pid_t other = start_as(client);
  if (other != 0) {
    const auto all = end({client});
    EXPECT_EQ(all.at(0).outcome, kNotAClient);
    EXPECT_THAT(all.at(0).note, HasSubstr("has exited"));
    EXPECT_NE(state_of(other), 'T');
    EXPECT_EQ(::waitpid(other, nullptr, WNOHANG), 0) << "it lives";
    (void)::kill(other, SIGKILL);
    (void)::waitpid(other, nullptr, 0);
  }
  ASSERT_EQ(::kill(pool_->supervisor().servers[0].pid, SIGCONT), 0);
  if (other == 0) GTEST_SKIP() << "a process cannot be given a number here";
}

class PoolEndsContainers : public PoolEnds {
 protected:
  PoolSettings settings() override {
    auto all = PoolEnds::settings();
    all.killed_with = [this](const std::vector<os::ProcessRef>& ending) -> std::optional<std::vector<os::ProcessRef>> {
      if (ending.empty() || ending[0].pid != first_) return std::nullopt;
      return killed_with_first_;
    };
    return all;
  }
  pid_t first_ = 0;
  std::vector<os::ProcessRef> killed_with_first_;
};

// Promise: stop: Clients that the kernel kills with a container's first process get their time before.
TEST_F(PoolEndsContainers, TheClientsThatTheKernelKillsWithTheFirstProcessGetTheirTime) {
  serve();
  pool_->set_stop_patience(300ms);
  first_ = start_client({"--hold"});
  // A client of a different pool: this pool's server cannot show whether its GPU work is finished.
  auto other = os::Process::start(*loop_, {.argv = {"/bin/sleep", "600"}, .kill_on_drop = true}, [](os::ExitNote) {});
  ASSERT_TRUE(other);
  killed_with_first_ = {(*other)->ref()};
  begin({first_});
  EXPECT_TRUE(until([&] { return state_of((*other)->ref().pid) == 'T'; }));
  const auto all = finish();
  ASSERT_EQ(all.size(), 1u) << "an outcome for what was asked for only";
  EXPECT_EQ(all[0].pid, first_);
  EXPECT_GE(std::stoi(all[0].note.substr(7)), 300) << all[0].note;  // "waited … ms for its queued GPU work"
  EXPECT_TRUE(until([&] { return !(*other)->running(); }));
}

// Promise: stop: A client that is continued is ended when its time is up all the same.
TEST_F(PoolEnds, AClientThatIsContinuedIsEndedAllTheSame) {
  serve();
  pool_->set_stop_patience(300ms);
  const pid_t client = start_client({"--hold"});
  begin({client});
  ASSERT_TRUE(until([&] { return state_of(client) == 'T'; }));
  ASSERT_EQ(::kill(client, SIGCONT), 0);
  EXPECT_EQ(finish()[0].outcome, kTerminated);
  EXPECT_EQ(state_of(client), 'X');
}

TEST_F(PoolEnds, AClientThatExitsByItselfIsDone) {
  serve();
  pool_->set_stop_patience(60s);
  const pid_t client = start_client({"--hold"});
  begin({client});
  ASSERT_TRUE(until([&] { return state_of(client) == 'T'; }));
  ASSERT_EQ(::kill(client, SIGKILL), 0);
  const auto all = finish();
  EXPECT_EQ(all[0].outcome, kTerminated);
  EXPECT_THAT(all[0].note, HasSubstr("before it was killed"));
}

// Promise: stop: Ending many clients at a time keeps the pool in service.
TEST_F(PoolEnds, ManyAtATimeKeepThePoolServing) {
  serve();
  pool_->set_stop_patience(50ms);
  std::vector<int> clients;
  for (int i = 0; i < 30; ++i) clients.push_back(start_client({"--hold", "--stay"}));
  history_.clear();
  for (const auto& one : end(clients)) EXPECT_EQ(one.outcome, kTerminated) << one.note;
  for (const auto& seen : history_) EXPECT_EQ(seen.state, State::kServing) << seen.reason;
}

}  // namespace
}  // namespace tranche::mps
