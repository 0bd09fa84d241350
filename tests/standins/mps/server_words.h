#pragma once
// What the server's parts share: the clock of its drains, how its log names a client, the code of an illegal address.
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
