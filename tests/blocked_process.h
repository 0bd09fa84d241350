#pragma once
// The stand-in blocked-process under a name of its own: a process in a container, outside of the test, that blocks all
// who read its memory. Each lives as short as possible, because it also blocks every `ps` of the machine.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <expected>
#include <filesystem>
#include <future>
#include <string>

namespace tranche::test {

class BlockedProcess {
 public:
  // `path`: where a copy of the program is made; its last part is the name of the processes.
  explicit BlockedProcess(const std::string& path) {
    std::filesystem::copy_file(std::string(std::getenv("TRANCHE_BUILD")) + "/standins/blocked-process", path);
    int says[2];
    if (::pipe(says) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(says[1], STDOUT_FILENO);
      ::close(says[0]);
      ::close(says[1]);
      ::execl(path.c_str(), path.c_str(), "-d", nullptr);
      ::_exit(1);
    }
    ::close(says[1]);
    char text[8];
    ready_ = ::read(says[0], text, sizeof text) > 0;
    ::close(says[0]);
  }
  ~BlockedProcess() { kill(); }
  BlockedProcess(const BlockedProcess&) = delete;
  BlockedProcess& operator=(const BlockedProcess&) = delete;

  bool ready() const { return ready_; }
  pid_t pid() const { return pid_; }

  // The result of what must not wait for this process. If it does wait, an error, and the process is killed so that it
  // returns.
  template <class Act>
  auto within_time(const Act& act) const -> std::expected<decltype(act()), std::string> {
    auto result = std::async(std::launch::async, act);
    const bool done = result.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    if (!done) kill();
    auto value = result.get();
    if (!done) return std::unexpected("it waits for the process");
    return value;
  }

 private:
  void kill() const {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);  // its child is killed with it
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  mutable pid_t pid_ = 0;
  bool ready_ = false;
};

}  // namespace tranche::test
