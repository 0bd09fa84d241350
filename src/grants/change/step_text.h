#pragma once
// Private to src/grants/change: the text of figures and names in steps.
#include <string>
#include <vector>

#include "grants/change/held.h"
#include "plan/plan.h"

namespace tranche::change {

inline constexpr const char* kStayUntilFree = "held slots stay until they are free";
inline constexpr const char* kWaitsForFree = "as soon as nothing of it is held";
inline constexpr const char* kNextContainer = "for containers to come, those that run keep theirs";
inline constexpr const char* kNextClient = "takes effect with the next client";

std::string slots_text(std::uint64_t count);                                  // "1 slot", "10 slots"
std::string name_of(const std::vector<const plan::PlannedDevice*>& devices);  // "GPUs 0-3", "GPU 0:1"
std::string limits_text(const plan::ShareLimits& limits);                     // "14377 MiB and 12 SMs (10 %)"
std::string text_of(const SharingMode& mode);                                 // "exclusive", "time-slicing", "MPS"
std::string change_text(const SharingMode& before,
                        const SharingMode& after);  // "time-slicing → MPS", "MPS pool a → MPS pool b"

}  // namespace tranche::change
