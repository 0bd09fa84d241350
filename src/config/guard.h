#pragma once
// Configuration of the guard of MPS sharing, an extension: `sharing.mps.guard` and, per resource, `guard` of an entry.
// Its effect: docs/internals/guard.md. Plain values.
#include "base/time.h"
#include "config/enum_text.h"

namespace tranche::config {

// The action if the processes of a grant hold more memory on a device than its limit.
enum class GuardMemory { kObserve, kRefuseNew, kTerminateNewest, kTerminateAll };
// The action on processes on a shared GPU that are not MPS clients.
enum class GuardForeignProcesses { kObserve, kTerminate };
template <>
inline constexpr auto kWords<GuardMemory> = enum_words("observe", "refuse-new", "terminate-newest", "terminate-all");
template <>
inline constexpr auto kWords<GuardForeignProcesses> = enum_words("observe", "terminate");

struct Guard {
  Duration interval = std::chrono::milliseconds(100);
  GuardMemory memory = GuardMemory::kTerminateNewest;
  GuardForeignProcesses foreign_processes = GuardForeignProcesses::kObserve;
  friend bool operator==(const Guard&, const Guard&) = default;
};

}  // namespace tranche::config
