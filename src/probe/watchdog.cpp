#include "probe/watchdog.h"

#include <unistd.h>

#include <utility>

namespace tranche::probe {
namespace {

std::unique_ptr<os::Loop> open_loop() {
  auto loop = os::Loop::open();
  CHECK_THAT(loop, "an event loop can be opened");
  return *std::move(loop);
}

}  // namespace

Watchdog::Watchdog(std::string program, std::FILE* err)
    : program_(std::move(program)), err_(err), loop_(open_loop()), thread_([this] { loop_->run(); }) {}

Watchdog::~Watchdog() {
  loop_->stop();
  thread_.join();
}

void Watchdog::enter(const char* stage, std::optional<Duration> allowance) {
  loop_->post([this, name = std::string(stage), allowance] {
    if (!allowance) return timer_.stop();
    timer_.start(*allowance, [this, name, allowance] {
      std::fprintf(err_, "%s: no answer from the driver within %lld ms while %s\n", program_.c_str(),
                   static_cast<long long>(milliseconds_of(*allowance)), name.c_str());
      std::fflush(err_);
      ::_exit(1);
    });
  });
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
