#pragma once
// Inside allocate/: variables with the limits of a container's share, and variables that keep frameworks within it
// (docs/guide/frameworks.md). Under MPS a process sees the memory of the whole GPU as the total, so a framework that
// allocates a fraction of the total allocates more than the share. Pure.
//
// They are defaults for honest programs: no limit depends on them, and a container's own variables come before them.
#include <span>

#include "grants/allocate/mps_answer.h"

namespace tranche::allocate {

inline constexpr const char* kMemoryMibVariable = "TRANCHE_MEMORY_MIB";
inline constexpr const char* kMemoryFractionVariable = "TRANCHE_MEMORY_FRACTION";
inline constexpr const char* kSmsVariable = "TRANCHE_SMS";
inline constexpr const char* kJaxFractionVariable = "XLA_PYTHON_CLIENT_MEM_FRACTION";
inline constexpr const char* kTensorFlowGrowthVariable = "TF_FORCE_GPU_ALLOW_GROWTH";

// Of several devices each figure is the smallest: a process has one fraction for all that it sees. A figure that is not
// known is left out. Where the pool is joined, so are all figures: the answers of one container must not contradict
// each other (Around::pool_is_joined).
void put_framework_environment(Grant& grant, const std::vector<Held>& held, const Around& around);

}  // namespace tranche::allocate
