#include "termination/live/watched_pod.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "base/text.h"

namespace tranche::agent {
namespace {

// In seconds. An object may hold any number, and durations are in nanoseconds.
constexpr std::int64_t kLongestSleep = 86'400;
constexpr std::int64_t kLongestGrace = 365 * 86'400;
constexpr int kFirstRealTime = 34;  // in C libraries; the kernel's first two are reserved by them
constexpr int kLastRealTime = 64;

constexpr std::array<std::pair<std::string_view, int>, 28> kNames{{
    {"ABRT", SIGABRT}, {"ALRM", SIGALRM}, {"BUS", SIGBUS},   {"CHLD", SIGCHLD},   {"CONT", SIGCONT}, {"FPE", SIGFPE},
    {"HUP", SIGHUP},   {"ILL", SIGILL},   {"INT", SIGINT},   {"IO", SIGIO},       {"KILL", SIGKILL}, {"PIPE", SIGPIPE},
    {"PROF", SIGPROF}, {"PWR", SIGPWR},   {"QUIT", SIGQUIT}, {"SEGV", SIGSEGV},   {"STOP", SIGSTOP}, {"SYS", SIGSYS},
    {"TERM", SIGTERM}, {"TRAP", SIGTRAP}, {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN},   {"URG", SIGURG},   {"USR1", SIGUSR1},
    {"USR2", SIGUSR2}, {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ}, {"WINCH", SIGWINCH},
}};

int real_time(std::string_view name, int from, char sign) {
  if (name.empty()) return from;
  if (name.front() != sign) return 0;
  const auto by = parse_unsigned(name.substr(1));
  if (!by || *by > kLastRealTime - kFirstRealTime) return 0;
  return sign == '+' ? from + static_cast<int>(*by) : from - static_cast<int>(*by);
}

std::chrono::seconds seconds_of(std::int64_t count, std::int64_t most) {
  return std::chrono::seconds(std::clamp<std::int64_t>(count, 0, most));
}

}  // namespace

int signal_number(std::string_view name) {
  if (!name.starts_with("SIG")) return 0;
  name.remove_prefix(3);
  if (name.starts_with("RTMIN")) return real_time(name.substr(5), kFirstRealTime, '+');
  if (name.starts_with("RTMAX")) return real_time(name.substr(5), kLastRealTime, '-');
  for (const auto& [known, number] : kNames)
    if (known == name) return number;
  return 0;
}

WatchedPod watched_pod(const kube::PodSeen& seen) {
  WatchedPod pod{.uid = seen.uid, .pod_namespace = seen.pod_namespace, .name = seen.name, .mirror = seen.mirror};
  if (seen.deleting) pod.grace = seconds_of(seen.deletion_grace_seconds.value_or(0), kLongestGrace);
  pod.over = seen.over();
  pod.claims = seen.claims;
  pod.seen = seen.deletion_seen.value_or(MonoTime{});
  for (const auto& container : seen.containers) {
    const bool hooked = is_drain_hook(container.pre_stop);
    pod.containers.push_back({.name = container.name,
                              .hooked = hooked,
                              .sleeps = seconds_of(container.pre_stop_sleep, kLongestSleep),
                              .stop_signal = signal_number(container.stop_signal),
                              .own_hook = container.pre_stop_other || (!container.pre_stop.empty() && !hooked)});
  }
  return pod;
}

WatchedPod watched_pod(const kube::PodChange& change) {
  auto pod = watched_pod(change.pod);
  pod.gone = change.what == kube::PodChange::What::kGone;
  return pod;
}

}  // namespace tranche::agent
