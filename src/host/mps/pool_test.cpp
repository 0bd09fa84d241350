// One pool with the stand-in daemon as a real process: every test waits for events with a deadline, never for time.
#include "host/mps/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdlib>
#include <filesystem>

#include "host/files/scratch.h"

namespace tranche::host {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kUuid = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const mps::DaemonLimits kLimits{{{kUuid, mib(14377)}}, Percent::whole(10)};
const mps::DaemonLimits kOther{{{kUuid, mib(28754)}}, Percent::whole(20)};

std::string standins() {
  return std::string(std::getenv("TRANCHE_BUILD")) + "/standins";
}

class PoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = Loop::open();
    ASSERT_TRUE(loop) << to_string(loop.error());
    loop_ = *std::move(loop);
    const auto dir = Dir::open(scratch_.path());
    ASSERT_TRUE(dir);
    ASSERT_TRUE(dir->write_atomically("node.yaml", "gpus:\n  - profile: H200\n    uuid: " + kUuid + "\n"));
    fast_.ask_again = 5ms;
    fast_.health_every = 20ms;
    fast_.backoff_first = 1ms;
    fast_.backoff_longest = 20ms;
    fast_.stable_after = 0ms;
    fast_.start_deadline = 10s;
    fast_.quit_patience = 5s;
  }
  void TearDown() override {
    if (pool_) {
      pool_->stop();
      EXPECT_TRUE(until([&] { return pool_->gone(); })) << "a process was left behind";
    }
    pool_.reset();
  }

  PoolSettings settings() {
    PoolSettings s;
    s.id = "gpu-3f2a1b4c";
    s.devices = {kUuid};
    s.paths.mps_root = scratch_.path();
    s.binary.path = standins() + "/nvidia-cuda-mps-control";
    s.binary.env = {{"TRANCHE_SIM_NODE", scratch_.path()}, {"TRANCHE_BUILD", std::getenv("TRANCHE_BUILD")}};
    s.supervisor = fast_;
    s.seed = 1;
    return s;
  }
  void open_pool() {
    auto pool = Pool::open(*loop_, settings(),
                           {.on_change =
                                [this](const mps::Supervisor&, const mps::Supervisor& after) {
                                  history_.push_back(after);
                                  wake();
                                },
                            .on_log = [this](const mps::LogLine&) { wake(); }});
    ASSERT_TRUE(pool) << to_string(pool.error());
    pool_ = *std::move(pool);
  }
  void serve() {
    open_pool();
    pool_->want(kLimits);
    ASSERT_TRUE(until_state(mps::State::kServing)) << pool_->supervisor().reason;
  }

  void wake() {
    if (check_ && check_()) loop_->stop();
  }
  // Runs the loop until `condition` holds, looked at after every change and now and then for what tells no one.
  bool until(std::function<bool()> condition, Duration deadline = 20s) {
    if (condition()) return true;
    bool late = false;
    check_ = condition;
    const auto timer = loop_->after(deadline, [&] {
      late = true;
      loop_->stop();
    });
    std::function<void()> look = [&] {
      if (condition()) return loop_->stop();
      poll_ = loop_->after(2ms, look);
    };
    look();
    loop_->run();
    loop_->cancel(timer);
    loop_->cancel(poll_);
    check_ = {};
    return !late;
  }
  bool until_state(mps::State state) {
    return until([&] { return pool_->supervisor().state == state; });
  }
  // The daemon's answer to one command, asked by the program itself.
  std::string tell(const std::string& command) {
    std::optional<Result<std::string>> answer;
    const auto question = ask(*loop_, pool_->target(), command + "\n", 5s, [&](Result<std::string> reply) {
      answer = std::move(reply);
      wake();
    });
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    return answer && *answer ? **answer : answer ? to_string(answer->error()) : "";
  }
  std::string pipe() const { return scratch_ / "pools/gpu-3f2a1b4c/pipe"; }

  Scratch scratch_;
  std::unique_ptr<Loop> loop_;
  mps::SupervisorSettings fast_;
  std::unique_ptr<Pool> pool_;
  std::vector<mps::Supervisor> history_;
  std::function<bool()> check_;
  Loop::Id poll_ = 0;
};

// A process that ended and whose parent has not looked yet is gone, too.
bool runs(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const auto paren = stat.rfind(") ");
  return paren != std::string::npos && stat.compare(paren + 2, 1, "Z") != 0;
}

int open_descriptors() {
  const auto dir = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<int>(std::distance(begin(dir), end(dir)));
}

ino_t inode_of(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

TEST_F(PoolTest, ServesWithLimitsAppliedAndReadBack) {
  serve();
  EXPECT_EQ(pool_->supervisor().read_back, (mps::LimitsReadBack{{{kUuid, "14G"}}, "10.0"}));
  EXPECT_EQ(tell("get_default_device_pinned_mem_limit " + kUuid), "14G\n");
  EXPECT_EQ(tell("get_default_active_thread_percentage"), "10.0\n");
}

TEST_F(PoolTest, GivesTheDaemonExactlyItsEnvironment) {
  serve();
  const auto text = read_file("/proc/" + std::to_string(pool_->daemon_pid()) + "/environ");
  ASSERT_TRUE(text);
  for (const std::string& one : {"CUDA_MPS_PIPE_DIRECTORY=" + pipe(), "CUDA_VISIBLE_DEVICES=" + kUuid,
                                 "CUDA_MPS_LOG_DIRECTORY=" + (scratch_ / "pools/gpu-3f2a1b4c/log")}) {
    EXPECT_THAT(*text, HasSubstr(one));
  }
  EXPECT_EQ(std::ranges::count(*text, '\0'), 5);  // and the two that the stand-in needs
}

TEST_F(PoolTest, ServesAgainAfterItsDaemonWasKilled) {
  serve();
  const pid_t first = pool_->daemon_pid();
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != first && pool_->supervisor().state == mps::State::kServing; }));
  EXPECT_EQ(pool_->supervisor().restarts, 1u);
  EXPECT_EQ(tell("get_default_device_pinned_mem_limit " + kUuid), "14G\n");
  const auto seen_down = std::ranges::any_of(history_, [](const mps::Supervisor& s) {
    return s.state == mps::State::kBackingOff && s.reason == "the MPS control daemon was killed by signal 9 (Killed)";
  });
  EXPECT_TRUE(seen_down);
}

TEST_F(PoolTest, FiftyKillsInARowLeaveNoProcessAndNoDescriptor) {
  serve();
  ASSERT_TRUE(until([&] { return !history_.empty(); }));
  const int before = open_descriptors();
  std::vector<pid_t> pids;
  for (int i = 0; i < 50; ++i) {
    const pid_t pid = pool_->daemon_pid();
    pids.push_back(pid);
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    ASSERT_TRUE(until([&] { return pool_->daemon_pid() != pid && pool_->supervisor().state == mps::State::kServing; }))
        << i << ": " << pool_->supervisor().reason;
  }
  for (const pid_t pid : pids) EXPECT_FALSE(runs(pid)) << pid;
  // A question may be open at this moment; it is not a leak, and it goes.
  EXPECT_TRUE(until([&] { return open_descriptors() <= before; })) << open_descriptors() << " of " << before;
}

TEST_F(PoolTest, IsNotServingWhileItsDaemonIsMuteAndServesAgainWithoutARestart) {
  fast_.question_deadline = 200ms;
  serve();
  const pid_t pid = pool_->daemon_pid();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  const auto stopped_at = loop_->now();
  ASSERT_TRUE(until([&] { return pool_->supervisor().state != mps::State::kServing; }));
  EXPECT_LT(loop_->now() - stopped_at, 1s);
  EXPECT_THAT(pool_->supervisor().reason, HasSubstr("does not answer"));
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  ASSERT_TRUE(until_state(mps::State::kServing));
  EXPECT_EQ(pool_->daemon_pid(), pid);
  EXPECT_EQ(pool_->supervisor().restarts, 0u);
}

TEST_F(PoolTest, ReplacesADaemonThatStaysMute) {
  fast_.question_deadline = 100ms;
  fast_.mute_patience = 300ms;
  serve();
  const pid_t pid = pool_->daemon_pid();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != pid && pool_->supervisor().state == mps::State::kServing; }));
  EXPECT_FALSE(runs(pid));
}

TEST_F(PoolTest, StopLeavesNoProcess) {
  serve();
  const pid_t pid = pool_->daemon_pid();
  (void)tell("start_server -uid " + std::to_string(::getuid()));
  ASSERT_TRUE(until([&] { return !pool_->supervisor().servers.empty(); }));
  const pid_t server = pool_->supervisor().servers[0].pid;
  pool_->stop();
  ASSERT_TRUE(until([&] { return pool_->gone(); }));
  EXPECT_FALSE(runs(pid));
  EXPECT_FALSE(runs(server));
  EXPECT_EQ(pool_->supervisor().state, mps::State::kAbsent);
}

TEST_F(PoolTest, KillsADaemonThatWillNotStop) {
  fast_.quit_patience = 200ms;
  fast_.term_patience = 100ms;
  serve();
  const pid_t pid = pool_->daemon_pid();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  pool_->stop();
  ASSERT_TRUE(until([&] { return pool_->gone(); }));
  EXPECT_FALSE(runs(pid));
}

TEST_F(PoolTest, AdoptsTheDaemonFromBeforeARestartAndChecksItsLimits) {
  serve();
  const pid_t pid = pool_->daemon_pid();
  pool_.reset();
  history_.clear();
  ASSERT_TRUE(runs(pid)) << "the daemon must outlive us";
  serve();
  EXPECT_EQ(pool_->daemon_pid(), pid);
  EXPECT_THAT(pool_->supervisor().reason, HasSubstr("adopted"));
  EXPECT_EQ(pool_->supervisor().read_back, (mps::LimitsReadBack{{{kUuid, "14G"}}, "10.0"}));
}

TEST_F(PoolTest, GivesAnAdoptedDaemonTheLimitsItLacks) {
  serve();
  const pid_t pid = pool_->daemon_pid();
  pool_.reset();
  open_pool();
  pool_->want(kOther);
  ASSERT_TRUE(until_state(mps::State::kServing));
  EXPECT_EQ(pool_->daemon_pid(), pid);
  EXPECT_EQ(tell("get_default_device_pinned_mem_limit " + kUuid), "28G\n");
}

TEST_F(PoolTest, ChangesLimitsForServersToCome) {
  serve();
  (void)tell("start_server -uid " + std::to_string(::getuid()));
  ASSERT_TRUE(until([&] { return !pool_->supervisor().servers.empty(); }));
  const pid_t pid = pool_->daemon_pid();
  pool_->want(kOther);
  EXPECT_NE(pool_->supervisor().state, mps::State::kServing);
  ASSERT_TRUE(until_state(mps::State::kServing));
  EXPECT_EQ(pool_->daemon_pid(), pid);
  EXPECT_EQ(tell("get_default_active_thread_percentage"), "20.0\n");
  EXPECT_THAT(pool_->supervisor().reason, HasSubstr("the limits apply to new servers"));
}

TEST_F(PoolTest, StartsOverStaleSockets) {
  open_pool();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/control", pipe().c_str());
  const Fd stale(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(stale.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto dir = Dir::open(pipe());
  ASSERT_TRUE(dir->write_atomically("nvidia-cuda-mps-control.pid", std::to_string(::getpid())));
  const ino_t old = inode_of(pipe() + "/control");
  pool_->want(kLimits);
  ASSERT_TRUE(until_state(mps::State::kServing));
  EXPECT_NE(inode_of(pipe() + "/control"), old);
}

TEST_F(PoolTest, PutsTheSocketOfEveryNewDaemonIntoEveryDoor) {
  open_pool();
  const auto root = Dir::open(scratch_.path());
  for (const char* grant : {"0011223344556677", "8899aabbccddeeff"}) {
    ASSERT_TRUE(root->make_subdir(std::string("pools/gpu-3f2a1b4c/doors/") + grant));
  }
  const std::string door = scratch_ / "pools/gpu-3f2a1b4c/doors/8899aabbccddeeff/control";
  pool_->want(kLimits);
  ASSERT_TRUE(until_state(mps::State::kServing));
  const ino_t first = inode_of(pipe() + "/control");
  EXPECT_EQ(inode_of(door), first);
  const pid_t pid = pool_->daemon_pid();
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != pid && pool_->supervisor().state == mps::State::kServing; }));
  EXPECT_EQ(inode_of(door), inode_of(pipe() + "/control"));
  EXPECT_NE(inode_of(door), 0u);
}

TEST_F(PoolTest, LeavesAForeignDaemonAloneAndNamesIt) {
  serve();
  const pid_t pid = pool_->daemon_pid();
  auto other = settings();
  other.devices = {"GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff"};
  auto second = Pool::open(*loop_, other, {});
  ASSERT_TRUE(second);
  (*second)->want(kLimits);
  ASSERT_TRUE(until([&] { return (*second)->supervisor().state == mps::State::kBackingOff; }));
  EXPECT_THAT((*second)->supervisor().reason, HasSubstr("an MPS control daemon (pid " + std::to_string(pid) + ")"));
  (*second)->stop();
  EXPECT_TRUE((*second)->gone());
  EXPECT_TRUE(runs(pid));
}

TEST_F(PoolTest, RefusesAPathThatIsTooLongForASocket) {
  auto s = settings();
  s.paths.mps_root = scratch_ / std::string(80, 'x');
  const auto pool = Pool::open(*loop_, s, {});
  ASSERT_FALSE(pool);
  EXPECT_THAT(pool.error().what, HasSubstr("choose a shorter MPS root"));
}

TEST_F(PoolTest, GivesUpOnAProgramThatCannotRunAndSaysSo) {
  fast_.start_limit = 3;
  auto s = settings();
  s.binary.path = scratch_ / "nothing";
  s.supervisor = fast_;
  auto pool = Pool::open(*loop_, s, {});
  ASSERT_TRUE(pool);
  (*pool)->want(kLimits);
  ASSERT_TRUE(until([&] { return (*pool)->supervisor().state == mps::State::kGivenUp; }));
  EXPECT_THAT((*pool)->supervisor().reason, HasSubstr("given up after 3 failures"));
}

}  // namespace
}  // namespace tranche::host
