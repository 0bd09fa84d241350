#include "probe/main.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "os/loop/fd.h"

namespace tranche::probe {
namespace {

constexpr int kNoContainer = 4;
constexpr const char* kEndpointAt = "/run/tranche/mps";  // as in containers (docs/reference/paths.md)

Status put_endpoint(const std::string& endpoint) {
  if (::unshare(CLONE_NEWNS) != 0) return fail_errno("cannot have a mount namespace of its own (CAP_SYS_ADMIN)", "");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return fail_errno("cannot keep mounts to itself", "/");
  // Opened here: what was opened in the former namespace cannot be mounted in this one. And before what may hide it.
  const os::Fd from(::open(endpoint.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!from) return fail_errno("cannot open the endpoint's directory", endpoint);
  if (::mount("tmpfs", kRunDirectory, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0755") != 0)
    return fail_errno("cannot mount over the run directory", kRunDirectory);
  if (::mkdir(kEndpointAt, 0755) != 0)
    return fail_errno("cannot make the directory that the endpoint is mounted at", kEndpointAt);
  const std::string source = "/proc/self/fd/" + std::to_string(from.get());
  if (::mount(source.c_str(), kEndpointAt, nullptr, MS_BIND, nullptr) != 0)
    return fail_errno("cannot mount the endpoint", endpoint);
  if (::mount(nullptr, kEndpointAt, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0)
    return fail_errno("cannot make the endpoint's mount read-only", kEndpointAt);
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", kEndpointAt, 1);
  return {};
}

Status become_user(std::uint32_t user) {
  if (::setgroups(0, nullptr) != 0) return fail_errno("cannot drop groups", "");
  if (::setresgid(user, user, user) != 0) return fail_errno("cannot become the group", std::to_string(user));
  if (::setresuid(user, user, user) != 0) return fail_errno("cannot become the user", std::to_string(user));
  return {};
}

Status become_container(const Container& container) {
  if (!container.endpoint.empty()) TRY_STATUS(put_endpoint(container.endpoint));
  if (container.user) TRY_STATUS(become_user(*container.user));
  return {};
}

void hold() {
  const sigset_t set = ending_signals();
  int number = 0;
  ::sigwait(&set, &number);
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
    if (options.hold) hold();
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
