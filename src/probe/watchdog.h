#pragma once
// For a process that makes CUDA calls: a bound on the time of each stage, and an orderly end on SIGTERM and SIGINT.
#include <signal.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/time.h"
#include "os/loop/loop.h"

namespace tranche::probe {

// A CUDA call that hangs cannot be cancelled: all that is left is to report the stage and to end the process, with
// status 1.
class Watchdog {
 public:
  Watchdog(std::string program, std::FILE* err);  // the name before the message: "tranche probe"
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void enter(const char* stage, std::optional<Duration> allowance);  // absent = no limit

 private:
  const std::string program_;
  std::FILE* const err_;
  std::unique_ptr<os::Loop> loop_;
  os::Timer timer_{*loop_};  // of the stage; on the loop's thread only
  std::thread thread_;
};

sigset_t ending_signals();     // SIGTERM and SIGINT
void block_ending_signals();   // in the calling thread, and in those that it starts
bool ending_signal_pending();  // one that is blocked has arrived

}  // namespace tranche::probe
