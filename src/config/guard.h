#pragma once
// Configuration of the guard of MPS sharing, an extension: `sharing.mps.guard` and, per resource, `guard` of an entry.
// Its effect: docs/internals/guard.md. Plain values.
#include <array>
#include <string_view>

#include "base/time.h"

namespace tranche::config {

// The action if the processes of a grant hold more memory on a device than its limit.
enum class GuardMemory { kObserve, kRefuseNew, kTerminateNewest, kTerminateAll };
// The action on processes on a shared GPU that are not MPS clients.
enum class GuardForeignProcesses { kObserve, kTerminate };
std::string_view to_string(GuardMemory);            // "observe", "refuse-new", "terminate-newest", "terminate-all"
std::string_view to_string(GuardForeignProcesses);  // "observe", "terminate"

inline constexpr std::array kGuardMemories{GuardMemory::kObserve, GuardMemory::kRefuseNew,
                                           GuardMemory::kTerminateNewest, GuardMemory::kTerminateAll};
inline constexpr std::array kGuardForeignProcesses{GuardForeignProcesses::kObserve, GuardForeignProcesses::kTerminate};

inline constexpr Duration kGuardIntervalLeast = std::chrono::milliseconds(50);
inline constexpr Duration kGuardIntervalMost = std::chrono::seconds(10);

struct Guard {
  Duration interval = std::chrono::milliseconds(100);
  GuardMemory memory = GuardMemory::kTerminateNewest;
  GuardForeignProcesses foreign_processes = GuardForeignProcesses::kObserve;
  friend bool operator==(const Guard&, const Guard&) = default;
};

}  // namespace tranche::config
