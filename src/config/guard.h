#pragma once
// How the guard of MPS sharing is configured: ours, below `sharing.mps.guard` and, per resource, `guard` of an entry.
// What it does with it is docs/internals/guard.md. Plain values.
#include <array>
#include <string_view>

#include "base/time.h"

namespace tranche::config {

// What happens when the processes of a grant hold more memory on a device than it is worth.
enum class GuardMemory { kObserve, kRefuseNew, kTerminateNewest, kTerminateAll };
// What happens to processes on a shared GPU that are no MPS clients.
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
