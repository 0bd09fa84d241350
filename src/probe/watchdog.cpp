#include "probe/watchdog.h"

#include <unistd.h>

#include <utility>

namespace tranche::probe {

Watchdog::Watchdog(std::string program, std::FILE* err)
    : program_(std::move(program)), err_(err), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::enter(const char* stage, std::optional<Duration> allowance) {
  {
    const std::lock_guard lock(mutex_);
    stage_ = stage;
    allowance_ = allowance;
    ++entered_;
  }
  changed_.notify_one();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const auto changed = [this, seen = entered_] { return ending_ || entered_ != seen; };
    if (!allowance_) {
      changed_.wait(lock, changed);
    } else if (!changed_.wait_for(lock, *allowance_, changed)) {
      std::fprintf(err_, "%s: no answer from the driver within %lld ms while %s\n", program_.c_str(),
                   static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(*allowance_).count()),
                   stage_.c_str());
      std::fflush(err_);
      ::_exit(1);
    }
  }
}

sigset_t ending_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  return set;
}

void block_ending_signals() {
  const sigset_t set = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

bool ending_signal_pending() {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && (::sigismember(&pending, SIGTERM) == 1 || ::sigismember(&pending, SIGINT) == 1);
}

}  // namespace tranche::probe
