#include "doctor/probe/main.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "doctor/probe/report.h"

namespace tranche::probe {
namespace {

constexpr int kNoContainer = 4;

// A CUDA call that hangs cannot be called off: all that is left is to say where and to end the process.
class Watchdog {
 public:
  Watchdog(Duration deadline, std::FILE* err) : deadline_(deadline), err_(err), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void enter(const char* stage, std::optional<Duration> allowance) {  // absent = as long as it likes
    {
      const std::lock_guard lock(mutex_);
      stage_ = stage;
      allowance_ = allowance;
      ++entered_;
    }
    changed_.notify_one();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      const auto changed = [this, seen = entered_] { return ending_ || entered_ != seen; };
      if (!allowance_) {
        changed_.wait(lock, changed);
      } else if (!changed_.wait_for(lock, *allowance_, changed)) {
        std::fprintf(err_, "tranche probe: no answer from the driver within %lld ms while %s\n",
                     static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(*allowance_).count()),
                     stage_.c_str());
        std::fflush(err_);
        ::_exit(1);
      }
    }
  }

  const Duration deadline_;
  std::FILE* const err_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string stage_ = "starting";
  std::optional<Duration> allowance_;
  std::uint64_t entered_ = 0;
  bool ending_ = false;
  std::thread thread_;  // last: starts when everything above is there
};

sigset_t ending_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  return set;
}

bool signal_pending() {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && (::sigismember(&pending, SIGTERM) == 1 || ::sigismember(&pending, SIGINT) == 1);
}

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

// The exit status for a report.
int verdict(const ProbeReport& report, std::FILE* err) {
  if (report.wrong_words != 0) {
    std::fprintf(err,
                 "tranche probe: %llu of %llu words that the GPU computed are wrong; take this GPU, or this number of "
                 "SMs, out of use\n",
                 static_cast<unsigned long long>(report.wrong_words),
                 static_cast<unsigned long long>(report.checked_words));
    return 1;
  }
  if (!report.gemm) return 0;
  const GemmReport& gemm = *report.gemm;
  if (gemm.outcome() == GemmOutcome::kWrong) {
    std::fprintf(err,
                 "tranche probe: %llu of %zu matrix products are wrong on %u SMs; do not give this number of SMs to "
                 "anybody (sharing.mps.smRounding, data/sm-counts.yaml)\n",
                 static_cast<unsigned long long>(gemm.count(GemmOutcome::kWrong)), gemm.cases.size(),
                 report.sms_by_attribute);
    return 1;
  }
  if (gemm.outcome() == GemmOutcome::kRight) return 0;
  std::fprintf(err, "tranche probe: matrix products were NOT checked: %s\n", gemm.not_checked.c_str());
  return 3;
}

}  // namespace

int probe_main(const ProbeCliOptions& options, std::FILE* out, std::FILE* err) {
  const sigset_t set = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (const Status status = become_container(options.container); !status) {
    std::fprintf(err, "tranche probe: %s\n", to_string(status.error()).c_str());
    return kNoContainer;
  }

  Watchdog watchdog(options.deadline, err);
  ProbeOptions probe = options.probe;
  probe.stop = signal_pending;
  probe.on_stage = [&](const char* stage) {
    const std::string name = stage;
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
  const int status = verdict(*report, err);
  std::fflush(err);
  return status;
}

}  // namespace tranche::probe
