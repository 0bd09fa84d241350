#pragma once
// Inside plan/: what a slot must have at the least for a program to start in it, and what an entry asks that a device
// does not have. Pure.
#include <vector>

#include "base/problem.h"
#include "config/model.h"
#include "plan/entries.h"

namespace tranche::plan {

// Problems of the first device of an entry that MPS serves and whose slots are too small, or more than it has. Where a
// container may hold several slots they are units, and only what no number of them gives is a Problem.
void check_floors(const config::Config& config, const Taken& taken, std::vector<Problem>& problems);

}  // namespace tranche::plan
