#pragma once
// What the namespace of one grant holds in tier v3: its memory and its percentage on the one device of its pool. A
// namespace has one memory limit and not one for each device, so a pool of several GPUs has none of these.
//
// A namespace takes whole percent. A share's percentage may have hundredths, and rounded down blindly it would be
// another number of SMs, perhaps one that computes wrong results (plan/sm_counts.h): it is rounded to the whole percent
// that is as many SMs. 22.73 % of 132 are 30 SMs, and so are 23 %, where 22 % are 28. Pure.
#include <cstdint>
#include <string>

#include "mps/control/v3.h"
#include "mps/limits/grant_limits.h"

namespace tranche::mps {

// Down where no whole percent is as many SMs (GPUs of more than 200), and where `sm_count` is 0, which is not known.
Percent whole_percent(Percent threads, std::uint32_t sm_count);

const v3::WantedNamespace* find(const std::vector<v3::WantedNamespace>& all, std::string_view name);  // null: none

// kInvalid: the grant does not hold the device, or its name cannot be a namespace's.
Result<v3::WantedNamespace> namespace_for(const std::string& grant, const GrantLimits& limits, const std::string& uuid,
                                          std::uint32_t sm_count);

}  // namespace tranche::mps
