#pragma once
// Runs a program to its end and returns what it printed. Blocking; makes a loop of its own. Bounded by a deadline.
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tranche::check {

// kTimeout when it has not ended by then (it is killed); kUnavailable when it ended with anything but status 0.
Result<std::string> run_program(const std::vector<std::string>& argv, Duration deadline);

}  // namespace tranche::check
