#pragma once
// Inside plan/: the minimums of a slot for a program to start in it, and requests that exceed a device. Pure.
#include <vector>

#include "base/problem.h"
#include "config/model.h"
#include "plan/entries.h"

namespace tranche::plan {

// Problems of the first device of an entry that MPS serves and whose slots are too small, or larger than the device. If
// a container may hold several slots, slots are units, and only a minimum that no number of them reaches is a Problem.
void check_minimums(const config::Config& config, const Taken& taken, std::vector<Problem>& problems);

}  // namespace tranche::plan
