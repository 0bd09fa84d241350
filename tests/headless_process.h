#pragma once
// Processes whose first thread has exited while another runs on. Only in a child that the test has forked.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

namespace tranche::test {

// Waits until this thread of the calling process is a zombie, or gone.
inline void await_exit(pid_t thread) {
  const auto is_zombie = [thread] {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("State:")) return line.starts_with("State:\tZ");
    return true;
  };
  while (!is_zombie()) ::usleep(1000);
}

// `rest` runs in a new thread, and must not return; the calling thread, the process's first, exits before.
template <class Rest>
[[noreturn]] void exit_first_thread(Rest rest) {
  std::thread([rest = std::move(rest)] {
    await_exit(::getpid());
    rest();
  }).detach();
  ::syscall(SYS_exit, 0);  // pthread_exit() would unwind the test's frames
  __builtin_unreachable();
}

// The same, and the threads that /proc lists first have exited as well: a tracer does not reap them.
template <class Rest>
[[noreturn]] void exit_first_threads(Rest rest) {
  struct Threads {
    std::atomic<pid_t> exited[20];
    std::atomic<bool> traced;
  };
  void* const memory = ::mmap(nullptr, sizeof(Threads), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const threads = static_cast<Threads*>(memory);
  for (auto& thread : threads->exited) {
    std::thread([&thread, threads] {
      thread = ::gettid();
      while (!threads->traced) ::usleep(1000);
      ::syscall(SYS_exit, 0);
    }).detach();
  }
  exit_first_thread([threads, rest = std::move(rest)] {
    for (const auto& thread : threads->exited)
      while (thread == 0) ::usleep(1000);
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (const auto& thread : threads->exited) ::ptrace(PTRACE_SEIZE, thread.load(), nullptr, nullptr);
      threads->traced = true;
      while (true) ::pause();
    }
    for (const auto& thread : threads->exited) await_exit(thread);
    rest();
  });
}

}  // namespace tranche::test
