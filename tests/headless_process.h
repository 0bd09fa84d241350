#pragma once
// A process whose first thread has exited while another runs on. Only in a child that the test has forked.
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>
#include <utility>

namespace tranche::test {

// `rest` runs in a new thread, and must not return; the calling thread, the process's first, exits.
template <class Rest>
[[noreturn]] void exit_first_thread(Rest rest) {
  std::thread(std::move(rest)).detach();
  ::syscall(SYS_exit, 0);  // pthread_exit() would unwind the test's frames
  __builtin_unreachable();
}

}  // namespace tranche::test
