#pragma once
// `tranche check` as a moment command: findings on `out`.
#include <cstdio>

#include "doctor/check/check.h"

namespace tranche::check {

int check_main(const CheckOptions& options, bool json, std::FILE* out,
               int width = 0);  // 0 = no errors, 1 = at least one

}  // namespace tranche::check
