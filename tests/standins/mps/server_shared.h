#pragma once
// Shared by the server's parts: the clock of its drains, a client's name in its log, the code of an illegal address.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace tranche::sim {

constexpr int kIllegalAddress = 700;

inline std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline std::string named(pid_t pid, int context) {
  return "{PID: " + std::to_string(pid) + ", Context ID: " + std::to_string(context) + "}";
}

}  // namespace tranche::sim
