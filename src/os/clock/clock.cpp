#include "os/clock/clock.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace tranche::os {
namespace {

Duration thread_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

MonoTime mono_now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

WallTime wall_now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

std::uint64_t boot_ticks() {
  constexpr std::uint64_t kNanos = 1'000'000'000;
  timespec now{};
  (void)::clock_gettime(CLOCK_BOOTTIME, &now);
  const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return static_cast<std::uint64_t>(now.tv_sec) * per_second +
         static_cast<std::uint64_t>(now.tv_nsec) * per_second / kNanos;
}

CpuBudget::CpuBudget(Duration most) : most_(most), begun_(thread_cpu_time()) {}

Duration CpuBudget::used() const {
  return thread_cpu_time() - begun_;
}

std::string utc_text(WallTime time) {
  const auto millis = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(millis);
  const auto whole = static_cast<time_t>(seconds.count());
  tm parts{};
  gmtime_r(&whole, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, static_cast<int>((millis - seconds).count()));
  return text;
}

}  // namespace tranche::os
