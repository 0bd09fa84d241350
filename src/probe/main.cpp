#include "probe/main.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <utility>

namespace tranche::probe {
namespace {

constexpr int kNoContainer = 4;

void hold(std::optional<Duration> at_most) {
  const sigset_t set = ending_signals();
  if (!at_most) {
    int number = 0;
    ::sigwait(&set, &number);
    return;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*at_most);
  const timespec wait{seconds.count(), (*at_most - seconds).count()};
  ::sigtimedwait(&set, nullptr, &wait);
}

std::unique_ptr<os::Loop> open_loop() {
  auto loop = os::Loop::open();
  CHECK_THAT(loop, "an event loop can be opened");
  return *std::move(loop);
}

}  // namespace

int probe_main(const ProbeCliOptions& options, std::FILE* out, std::FILE* err) {
  block_ending_signals();
  if (const Status status = become_container(options.container); !status) {
    std::fprintf(err, "tranche probe: %s\n", to_string(status.error()).c_str());
    return kNoContainer;
  }

  Watchdog watchdog("tranche probe", err);
  ProbeOptions probe = options.probe;
  probe.stop = ending_signal_pending;
  probe.on_stage = [&](const char* stage) {
    const std::string name = stage;
    if (options.stages) std::fprintf(err, "%s\n", stage);
    if (name == "holding") return watchdog.enter(stage, std::nullopt);
    watchdog.enter(stage, name == "computing" ? options.deadline + probe.run_for : options.deadline);
  };
  const auto while_alive = [&](const ProbeReport& report) {
    std::fputs((options.json ? to_json(report) : to_text(report)).c_str(), out);
    std::fflush(out);
    if (options.hold) hold(options.hold_for);
  };
  const Result<ProbeReport> report = run_probe(probe, while_alive);
  if (!report) {
    std::fprintf(err, "tranche probe: %s\n", to_string(report.error()).c_str());
    std::fflush(err);
    return report.error().where == "--device" ? 2 : 1;
  }
  if (report->wrong_words == 0) return 0;
  std::fprintf(err,
               "tranche probe: %llu of %llu words that the GPU computed are wrong; take this GPU, or this number of "
               "SMs, out of use\n",
               static_cast<unsigned long long>(report->wrong_words),
               static_cast<unsigned long long>(report->checked_words));
  std::fflush(err);
  return 1;
}

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
