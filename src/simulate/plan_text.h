#pragma once
// Private to src/simulate: the text of figures in the plan's table.
#include <string>

#include "plan/plan.h"

namespace tranche::simulate {

std::string memory_text(const plan::ShareLimits& limits);  // "71885 MiB", "not limited"
std::string sms_text(const plan::ShareLimits& limits);     // "66 (50 %)", "50 %", "not limited"
std::string count_text(std::uint64_t n, const char* one);  // "1 slot", "2 slots"

}  // namespace tranche::simulate
