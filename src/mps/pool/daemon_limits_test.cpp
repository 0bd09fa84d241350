// The limits for the clients that the daemon accepts next: set, read back, and not undone by the pool's own checks.
#include "mps/pool/pool_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::HasSubstr;

const std::string kSecond = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";
const DaemonLimits kSmall{{{kUuid, mib(7188)}}, Percent{550}};

class PoolAdmissionLimits : public PoolTest {
 protected:
  std::string set_limits(const DaemonLimits& limits) {
    std::optional<std::string> answer;
    pool_->set_next_limits(limits, [&](const Status& status) {
      answer = status ? "set" : to_string(status.error());
      wake();
    });
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    return answer.value_or("");
  }
  std::string server() const {
    return pool_->supervisor().servers.empty() ? "" : std::to_string(pool_->supervisor().servers[0].pid);
  }
  // Waits for several looks at the servers.
  void looks() {
    int looks = 0;
    bool asked = false;
    ASSERT_TRUE(until([&] {
      const bool asks = pool_->supervisor().question_due.has_value();
      looks += std::exchange(asked, asks) && !asks ? 1 : 0;
      return looks > 3;
    }));
  }
};

// Promise: mps/limits/limits: A grant's limits are set as defaults and on a running server.
TEST_F(PoolAdmissionLimits, SetsTheDefaultsForTheServerThatTheClientWillStart) {
  serve();
  EXPECT_EQ(set_limits(kSmall), "set");
  EXPECT_EQ(ask_daemon("get_default_device_pinned_mem_limit " + kUuid), "7G\n");
  EXPECT_EQ(ask_daemon("get_default_active_thread_percentage"), "5.5\n");
  (void)start_client({"--hold"});
  EXPECT_THAT(output().back(), HasSubstr("\"limit\":" + std::to_string(7188ull << 20)));
}

// Promise: mps/limits/limits: A grant's limits are set as defaults and on a running server.
TEST_F(PoolAdmissionLimits, SetsARunningServerToo) {
  serve();
  (void)start_client({"--hold"});
  ASSERT_TRUE(until([&] { return !server().empty(); }));
  EXPECT_EQ(set_limits(kSmall), "set");
  EXPECT_EQ(ask_daemon("get_device_pinned_mem_limit " + server() + " " + kUuid), "7G\n");
  EXPECT_EQ(ask_daemon("get_active_thread_percentage " + server()), "5.5\n");
  (void)start_client({"--hold"});
  EXPECT_THAT(output().back(), HasSubstr("\"limit\":" + std::to_string(7188ull << 20)));
  EXPECT_THAT(output().front(), HasSubstr("\"limit\":" + std::to_string(14377ull << 20))) << "keeps what it began with";
}

// Promise: mps/limits/limits: A server that started meanwhile gets the grant's limits too.
TEST_F(PoolAdmissionLimits, FindsAServerThatBeganMeanwhile) {
  serve();
  (void)ask_daemon("start_server -uid " + std::to_string(::getuid()));
  EXPECT_EQ(set_limits(kSmall), "set");  // whether or not the log was read by now
  ASSERT_TRUE(until([&] { return !server().empty(); }));
  EXPECT_EQ(ask_daemon("get_device_pinned_mem_limit " + server() + " " + kUuid), "7G\n");
}

TEST_F(PoolAdmissionLimits, IsNotMendedByThePoolThatWatchesItsServers) {
  serve();
  (void)start_client({"--hold"});
  ASSERT_TRUE(until([&] { return !server().empty(); }));
  EXPECT_EQ(set_limits(kSmall), "set");
  const auto states = history_.size();
  looks();
  EXPECT_EQ(ask_daemon("get_active_thread_percentage " + server()), "5.5\n");
  for (std::size_t i = states; i < history_.size(); ++i) EXPECT_EQ(history_[i].state, State::kServing);
}

TEST_F(PoolAdmissionLimits, WhatSomebodyElseChangesGoesBackToTheLimitsOfTheTurn) {
  serve();
  (void)start_client({"--hold"});
  ASSERT_TRUE(until([&] { return !server().empty(); }));
  EXPECT_EQ(set_limits(kSmall), "set");
  (void)ask_daemon("set_active_thread_percentage " + server() + " 100");
  ASSERT_TRUE(until([&] { return ask_daemon("get_active_thread_percentage " + server()) == "5.5\n"; }));
  ASSERT_TRUE(until_state(State::kServing));
  EXPECT_EQ(pool_->supervisor().reason, "");
}

TEST_F(PoolAdmissionLimits, TheSameLimitsAgainCostNoSession) {
  serve();
  EXPECT_FALSE(pool_->holds(kSmall));
  EXPECT_EQ(set_limits(kSmall), "set");
  EXPECT_TRUE(pool_->holds(kSmall));
  bool at_once = false;
  pool_->set_next_limits(kSmall, [&](const Status& status) { at_once = status.has_value(); });
  EXPECT_TRUE(at_once);
  EXPECT_EQ(set_limits(pool_->supervisor().desired), "set");
  EXPECT_EQ(ask_daemon("get_default_active_thread_percentage"), "10.0\n");
}

// Promise: mps/limits/limits: A client whose limits cannot be set stays out and the reason is reported.
TEST_F(PoolAdmissionLimits, LimitsThatDoNotReadBackAreAnErrorThatThePoolReports) {
  serve();
  const DaemonLimits impossible{{{kUuid, Bytes{}}}, Percent{550}};  // 0M removes a limit
  EXPECT_THAT(set_limits(impossible), HasSubstr("was not read back"));
  EXPECT_THAT(pool_->supervisor().reason, HasSubstr("a grant's limits could not be set"));
  EXPECT_EQ(pool_->supervisor().state, State::kServing);
  EXPECT_FALSE(pool_->holds(pool_->supervisor().desired)) << "it is not known what it holds";
  EXPECT_EQ(set_limits(kSmall), "set");
  EXPECT_EQ(pool_->supervisor().reason, "");
}

TEST_F(PoolAdmissionLimits, OneCallIsInProgress) {
  serve();
  std::vector<std::string> answers;
  const auto note = [&](const char* who) {
    return [&answers, who](const Status& status) {
      answers.push_back(std::string(who) + (status ? " set" : " " + std::string(to_string(status.error().kind))));
    };
  };
  pool_->set_next_limits(kSmall, note("first"));
  pool_->set_next_limits(kLimits, note("second"));
  ASSERT_TRUE(until([&] { return answers.size() == 2; }));
  EXPECT_THAT(answers, ::testing::ElementsAre("second unavailable", "first set"));
}

TEST_F(PoolAdmissionLimits, ADaemonThatEndsMeanwhileIsSaidAndItsSuccessorHasThePoolsOwnLimits) {
  serve();
  EXPECT_EQ(set_limits(kSmall), "set");
  const pid_t pid = pool_->daemon_pid();
  std::optional<Status> answer;
  pool_->set_next_limits(kOther, [&](const Status& status) { answer = status; });
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != pid && pool_->supervisor().state == State::kServing; }));
  ASSERT_TRUE(answer.has_value());
  EXPECT_FALSE(*answer);
  EXPECT_FALSE(pool_->holds(kSmall));
  EXPECT_EQ(ask_daemon("get_default_active_thread_percentage"), "10.0\n");
}

TEST_F(PoolAdmissionLimits, WhileItDoesNotServeNothingIsSet) {
  open_pool();
  EXPECT_THAT(set_limits(kSmall), HasSubstr("does not serve"));
}

class PoolOfTwo : public PoolAdmissionLimits {
 protected:
  void SetUp() override {
    PoolAdmissionLimits::SetUp();
    const auto dir = os::Dir::open(scratch_.path());
    ASSERT_TRUE(dir->write_atomically("node.yaml", "gpus:\n  - profile: H200\n    uuid: " + kUuid +
                                                       "\n  - profile: H200\n    uuid: " + kSecond + "\n"));
  }
  PoolSettings settings() override {
    auto s = PoolAdmissionLimits::settings();
    s.devices = {kUuid, kSecond};
    return s;
  }
  const DaemonLimits both_{{{kUuid, mib(14377)}, {kSecond, mib(28754)}}, Percent::whole(20)};
  const DaemonLimits second_alone_{{{kUuid, mib(1)}, {kSecond, mib(7188)}}, Percent{550}};
};

TEST_F(PoolOfTwo, HasALimitOfItsOwnOnEachDevice) {
  serve(both_);
  EXPECT_EQ(ask_daemon("get_default_device_pinned_mem_limit " + kUuid), "14G\n");
  EXPECT_EQ(ask_daemon("get_default_device_pinned_mem_limit " + kSecond), "28G\n");
  const auto environ = os::read_file("/proc/" + std::to_string(pool_->daemon_pid()) + "/environ");
  EXPECT_THAT(*environ, HasSubstr("CUDA_VISIBLE_DEVICES=" + kUuid + "," + kSecond));
  (void)start_client({"--hold", "--all-devices"});
  ASSERT_TRUE(until([&] { return !server().empty(); }));
  EXPECT_EQ(set_limits(second_alone_), "set");
  EXPECT_EQ(ask_daemon("get_device_pinned_mem_limit " + server() + " " + kUuid), "1M\n");
  EXPECT_EQ(ask_daemon("get_device_pinned_mem_limit " + server() + " " + kSecond), "7G\n");
  looks();
  EXPECT_EQ(pool_->supervisor().state, State::kServing);
  EXPECT_EQ(ask_daemon("get_device_pinned_mem_limit " + server() + " " + kSecond), "7G\n");
}

TEST_F(PoolOfTwo, MendsTheLimitOfEitherDevice) {
  serve(both_);
  (void)start_client({"--hold"});
  ASSERT_TRUE(until([&] { return !server().empty(); }));
  (void)ask_daemon("set_device_pinned_mem_limit " + server() + " " + kSecond + " 100G");
  ASSERT_TRUE(until([&] { return ask_daemon("get_device_pinned_mem_limit " + server() + " " + kSecond) == "28G\n"; }));
}

// Promise: mps/limits/limits: A device of the pool that the grant does not hold gives no context.
TEST_F(PoolOfTwo, ADeviceThatTheGrantDoesNotHoldGivesNoContext) {
  serve(both_);
  EXPECT_EQ(set_limits(second_alone_), "set");
  (void)start_client({"--hold", "--all-devices"});
  EXPECT_THAT(output().back(), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
}

}  // namespace
}  // namespace tranche::mps
