#pragma once
// Test fixture: one pool with the stand-in daemon as a real process. Tests wait for events with a deadline, never for a
// time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/text.h"
#include "mps/pool/pool_daemon.h"
#include "os/files/scratch_fixture.h"

namespace tranche::mps {

using namespace std::chrono_literals;

inline const std::string kUuid = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
inline const DaemonLimits kLimits{{{kUuid, mib(14377)}}, Percent::whole(10)};
inline const DaemonLimits kOther{{{kUuid, mib(28754)}}, Percent::whole(20)};

inline std::string standins() {
  return std::string(std::getenv("TRANCHE_BUILD")) + "/standins";
}

class PoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = os::Loop::open();
    ASSERT_TRUE(loop) << to_string(loop.error());
    loop_ = *std::move(loop);
    const auto dir = os::Dir::open(scratch_.path());
    ASSERT_TRUE(dir);
    ASSERT_TRUE(dir->write_atomically("node.yaml", "gpus:\n  - profile: H200\n    uuid: " + kUuid + "\n"));
    fast_.ask_again = 5ms;
    fast_.health_every = fast_.rest_every = 20ms;
    fast_.backoff_first = 1ms;
    fast_.backoff_longest = 20ms;
    fast_.stable_after = 0ms;
    fast_.ping_deadline = fast_.question_deadline = 10s;  // a busy machine may delay a daemon that works
    fast_.start_deadline = 10s;
    fast_.quit_patience = 5s;
  }
  void TearDown() override {
    clients_.clear();
    if (pool_) {
      pool_->stop();
      EXPECT_TRUE(until([&] { return pool_->gone(); })) << "a process was left behind";
    }
    pool_.reset();
  }

  virtual PoolSettings settings() {
    PoolSettings s;
    s.id = "gpu-3f2a1b4c";
    s.devices = {kUuid};
    s.paths.mps_root = scratch_.path();
    s.binary.path = standins() + "/nvidia-cuda-mps-control";
    s.binary.env = {{"TRANCHE_SIM_NODE", scratch_.path()}, {"TRANCHE_BUILD", std::getenv("TRANCHE_BUILD")}};
    s.supervisor = fast_;
    return s;
  }
  void open_pool() {
    auto pool = PoolDaemon::open(*loop_, settings(), [this] {
      history_.push_back(pool_->supervisor());
      wake();
    });
    ASSERT_TRUE(pool) << to_string(pool.error());
    pool_ = *std::move(pool);
  }
  void serve(const DaemonLimits& limits = kLimits) {
    open_pool();
    pool_->want(limits);
    ASSERT_TRUE(until_state(State::kServing)) << pool_->supervisor().reason;
  }

  void wake() {
    if (check_ && check_()) loop_->stop();
  }
  // Runs the loop until `condition` holds; checks after every change, and periodically for changes that raise no event.
  bool until(std::function<bool()> condition, Duration deadline = 60s) {
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
  bool until_state(State state) {
    return until([&] { return pool_->supervisor().state == state; });
  }
  // How clients and the control program reach the daemon.
  ControlTarget target() {
    const auto s = settings();
    auto env = s.binary.env;
    env["CUDA_MPS_PIPE_DIRECTORY"] = pipe();
    env["CUDA_VISIBLE_DEVICES"] = join(s.devices, ",");
    return {{s.binary.path}, std::move(env)};
  }
  // The daemon's answer to one command, sent with the control program. The daemon serves one session at a time: while
  // the pool has it, this one is refused and tries again.
  std::string ask_daemon(const std::string& command) {
    std::optional<Result<std::string>> answer;
    Sessions sessions(*loop_, target());
    const auto question = sessions.ask(command + "\n", 60s, [&](Result<std::string> reply) {
      answer = std::move(reply);
      wake();
    });
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    if (!answer) return "";
    return *answer ? **answer : to_string(answer->error());
  }
  // Starts a CUDA process of this pool; returns when it has attached.
  pid_t start_client(const std::vector<std::string>& options) {
    os::Command command{.argv = {standins() + "/sim-cuda"}, .env = target().env, .kill_on_drop = true};
    command.argv.insert(command.argv.end(), options.begin(), options.end());
    command.output = printed_.get();
    const auto before = output();
    auto process = os::Process::start(*loop_, command, [this](os::ExitNote) { wake(); });
    EXPECT_TRUE(process) << to_string(process.error());
    EXPECT_TRUE(until([&] { return output().size() > before.size(); })) << "the client did not attach";
    clients_.push_back(*std::move(process));
    return clients_.back()->ref().pid;
  }
  // Lines of all clients.
  std::vector<std::string> output() const {
    const auto text = os::read_file("/proc/self/fd/" + std::to_string(printed_.get())).value_or("");
    const auto lines = lines_of(text);
    return {lines.begin(), lines.end()};
  }
  std::string pipe() const { return scratch_ / "pools/gpu-3f2a1b4c/pipe"; }

  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  SupervisorSettings fast_;
  std::unique_ptr<PoolDaemon> pool_;
  std::vector<Supervisor> history_;
  os::Fd printed_{::memfd_create("clients", MFD_CLOEXEC)};
  std::vector<std::unique_ptr<os::Process>> clients_;
  std::function<bool()> check_;
  os::Loop::Id poll_ = 0;
};

// A process that has exited and was not reaped yet does not run either.
inline bool runs(pid_t pid) {
  const auto stat = os::read_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const auto paren = stat.rfind(") ");
  return paren != std::string::npos && stat.compare(paren + 2, 1, "Z") != 0;
}

inline int open_descriptors() {
  const auto dir = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<int>(std::distance(begin(dir), end(dir)));
}

inline ino_t inode_of(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace tranche::mps
