#pragma once
// For tests: connections (os/socket/socket_fixture.h), and a process that has the number of one that has exited.
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "os/socket/socket_fixture.h"

namespace tranche::mps {

// A process with that pid, as the kernel would create one in time. false: choosing pids is not permitted here.
class Successor {
 public:
  explicit Successor(pid_t number) {
    clone_args how{};
    how.exit_signal = SIGCHLD;
    how.set_tid = reinterpret_cast<std::uintptr_t>(&number);
    how.set_tid_size = 1;
    pid_ = static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
    if (pid_ == 0) ::syscall(SYS_close_range, 0U, ~0U, 0U);  // otherwise it would keep connections open
    while (pid_ == 0) ::pause();
  }
  ~Successor() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;
  explicit operator bool() const { return pid_ > 0; }

 private:
  pid_t pid_ = -1;
};

}  // namespace tranche::mps
