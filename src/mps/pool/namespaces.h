#pragma once
// The namespace of one grant in tier v3: its memory and its percentage on the one device of its pool. A namespace has
// one memory limit instead of one for each device, so a pool of several GPUs has no namespaces.
//
// A namespace accepts only whole percent, but a share's percentage may have hundredths. Rounding down could give a
// different number of SMs, perhaps one that computes wrong results (plan/sm_counts.h). The percentage is therefore
// rounded to the whole percent that gives the same number of SMs: 22.73 % of 132 are 30 SMs, and so are 23 %, but 22 %
// are 28. Pure.
#include <cstdint>
#include <string>

#include "mps/control/v3.h"
#include "mps/limits/grant_limits.h"

namespace tranche::mps {

// Rounds down if no whole percent gives that number of SMs (GPUs with more than 200), and if `sm_count` is 0 (not
// known).
Percent whole_percent(Percent threads, std::uint32_t sm_count);

const v3::WantedNamespace* find(const std::vector<v3::WantedNamespace>& all, std::string_view name);  // null: none

// kInvalid: the grant does not hold the device, or its name is not valid for a namespace.
Result<v3::WantedNamespace> namespace_for(const std::string& grant, const GrantLimits& limits, const std::string& uuid,
                                          std::uint32_t sm_count);

}  // namespace tranche::mps
