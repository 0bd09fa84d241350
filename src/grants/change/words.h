#pragma once
// Private to src/grants/change: figures and names in the words of steps.
#include <string>
#include <vector>

#include "grants/change/held.h"
#include "plan/plan.h"

namespace tranche::change {

inline constexpr const char* kStayUntilFree = "held slots stay until they are free";
inline constexpr const char* kWaitsForFree = "as soon as nothing of it is held";
inline constexpr const char* kTakenAtOnce = "at once, by force: what containers hold of it is taken";
inline constexpr const char* kNextContainer = "for containers to come, those that run keep theirs";
inline constexpr const char* kNextClient = "takes effect with the next client";

std::string slots_text(std::uint64_t count);                                  // "1 slot", "10 slots"
std::string name_of(const std::vector<const plan::PlannedDevice*>& devices);  // "GPUs 0-3", "GPU 0:1"
std::string worth_text(const plan::ShareLimits& worth);                       // "14377 MiB and 12 SMs (10 %)"
std::string text_of(const Means& means);                                      // "exclusive", "time-slicing", "MPS"
std::string change_text(const Means& before, const Means& after);  // "time-slicing → MPS", "MPS pool a → MPS pool b"

}  // namespace tranche::change
