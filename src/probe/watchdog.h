#pragma once
// For a process that makes CUDA calls: a bound on the time of each stage, and an orderly end on SIGTERM and SIGINT.
#include <signal.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/time.h"

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
  void watch();

  const std::string program_;
  std::FILE* const err_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string stage_ = "starting";
  std::optional<Duration> allowance_;
  std::uint64_t entered_ = 0;
  bool ending_ = false;
  std::thread thread_;  // last: starts when everything above is there
};

sigset_t ending_signals();     // SIGTERM and SIGINT
void block_ending_signals();   // in the calling thread, and in those that it starts
bool ending_signal_pending();  // one that is blocked has arrived

}  // namespace tranche::probe
