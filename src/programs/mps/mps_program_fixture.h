#pragma once
// `tranche mps` as a whole, as a process of its own on a simulated node with real stand-in daemons. Tests wait for
// reports on the status socket, with a deadline.
#include "programs/mps/mps_program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "os/files/scratch_fixture.h"
#include "os/loop/loop.h"
#include "os/process/process.h"
#include "os/socket/status_socket.h"
#include "standins/node/sim_node.h"

namespace tranche::programs {

using namespace std::chrono_literals;
using nlohmann::json;

inline const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
inline const std::string kB = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";

inline std::string config_text(int replicas, const std::string& more = "") {
  return "version: v1\nsharing:\n  mps:\n" + more +
         "    resources:\n      - name: nvidia.com/gpu\n        replicas: " + std::to_string(replicas) + "\n";
}

// A process that has exited and is not reaped yet counts as gone.
inline bool runs(pid_t pid) {
  const auto stat = os::read_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const auto paren = stat.rfind(") ");
  return paren != std::string::npos && stat.compare(paren + 2, 1, "Z") != 0;
}

class MpsProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    standins_ = std::string(std::getenv("TRANCHE_BUILD")) + "/standins";
    loop_ = *os::Loop::open();
    root_.emplace(*os::Dir::open(scratch_.path()));
    write("node.yaml", "gpus:\n  - profile: H200\n    uuid: " + kA + "\n  - profile: H200\n    uuid: " + kB + "\n");
    write("config.yaml", config_text(10));
    ::setenv("TRANCHE_SIM_NODE", scratch_.path().c_str(), 1);
    const auto lib = scratch_ / "driver/usr/lib64";
    const auto bin = scratch_ / "driver/usr/bin";
    std::filesystem::create_directories(lib);
    std::filesystem::create_directories(bin);
    std::filesystem::copy_file(standins_ + "/libnvidia-ml.so.1", lib + "/libnvidia-ml.so.1");
    std::filesystem::create_symlink(standins_ + "/nvidia-cuda-mps-control", bin + "/nvidia-cuda-mps-control");
    options_.flags["config-file"] = {scratch_ / "config.yaml"};
    options_.flags["mps-root"] = {scratch_ / "mps"};
    options_.environment = {{"TRANCHE_SIM_NODE", scratch_.path()}, {"TRANCHE_BUILD", std::getenv("TRANCHE_BUILD")}};
    options_.driver_root_here = scratch_ / "driver";
    options_.supervisor.backoff_first = 10ms;
    options_.supervisor.health_every = options_.supervisor.rest_every = 50ms;
    options_.search_again = 50ms;
    options_.proof_program.clear();
    node_ = *sim::Node::open(scratch_.path());
  }
  void TearDown() override {
    watcher_.reset();
    for (const pid_t pid : running_) ::kill(pid, SIGKILL);
    for (const pid_t pid : running_) ::waitpid(pid, nullptr, 0);
    for (const auto& pool : status_.value("pools", json::array())) {
      if (const pid_t pid = pool.value("daemonPid", 0); pid > 0) ::kill(pid, SIGKILL);  // left by a failed test
    }
  }
  void write(const std::string& name, const std::string& text) { ASSERT_TRUE(root_->write_atomically(name, text)); }

  // Starts a separate process: its standard error goes to `log`.
  pid_t start(const std::string& log = "mps.log") {
    const std::string path = scratch_ / log;
    const pid_t pid = ::fork();
    if (pid == 0) {
      const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      ::dup2(fd, 2);
      ::_exit(run_mps(options_));
    }
    running_.push_back(pid);
    return pid;
  }
  int exit_code(pid_t pid) {
    const auto ref = os::process_ref(pid);
    bool ended = !ref;
    std::unique_ptr<os::Process> process;
    int code = -1;
    if (ref) {
      process = *os::Process::adopt(*loop_, *ref, [&](os::ExitNote note) {
        code = note.signalled ? 128 + note.code : note.code;
        ended = true;
        loop_->stop();
      });
      run_until([&] { return ended; });
    }
    std::erase(running_, pid);
    return code;
  }
  // Checks the condition with every status, and from time to time for changes that no status reports.
  void run_until(const std::function<bool()>& condition) {
    const auto timer = loop_->after(60s, [this] {
      ADD_FAILURE() << "nothing happened in time; the last status was " << status_.dump(1) << "\nand the log\n"
                    << log();
      loop_->stop();
    });
    check_ = condition;
    os::Loop::Id look = 0;
    const std::function<void()> look_again = [&] {
      if (condition()) return loop_->stop();
      look = loop_->after(50ms, look_again);
    };
    if (!condition()) {
      look = loop_->after(50ms, look_again);
      loop_->run();
    }
    loop_->cancel(look);
    check_ = {};
    loop_->cancel(timer);
  }
  // Follows the status socket until the newest document satisfies `condition`; an empty object = no connection.
  bool until(const std::function<bool(const json&)>& condition) {
    if (!watcher_) {
      watcher_ =
          std::make_unique<os::StatusWatcher>(*loop_, scratch_ / "mps/mps.sock", [this](const std::string& line) {
            const json next = line.empty() ? json::object() : json_of(line);
            if (!line.empty()) status_ = next;
            connected_ = !line.empty();
            if (check_ && check_()) loop_->stop();
          });
    }
    run_until([&] { return connected_ && condition(status_); });
    return connected_ && condition(status_);
  }
  static bool all_serving(const json& status, std::size_t pools) {
    const auto list = status.value("pools", json::array());
    return list.size() == pools &&
           std::ranges::all_of(list, [](const json& pool) { return pool.value("state", "") == "serving"; });
  }
  bool until_serving(std::size_t pools = 2) {
    return until([=](const json& status) { return all_serving(status, pools); });
  }
  std::vector<pid_t> daemons() const {
    std::vector<pid_t> pids;
    for (const auto& pool : status_["pools"]) pids.push_back(pool.value("daemonPid", 0));
    return pids;
  }
  std::string log(const std::string& name = "mps.log") const { return root_->read(name).value_or(""); }

  os::Scratch scratch_;
  std::string standins_;
  std::optional<os::Dir> root_;
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<sim::Node> node_;
  MpsOptions options_;
  std::vector<pid_t> running_;
  std::unique_ptr<os::StatusWatcher> watcher_;
  json status_ = json::object();
  bool connected_ = false;
  std::function<bool()> check_;
};

}  // namespace tranche::programs
