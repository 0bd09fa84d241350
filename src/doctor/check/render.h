#pragma once
// Findings for people (one block each, problems first to the eye) and for programs (a JSON array). Pure.
#include <string>
#include <vector>

#include "doctor/check/check.h"

namespace tranche::check {

std::string to_table(const std::vector<Finding>& findings);
std::string to_json(const std::vector<Finding>& findings);

}  // namespace tranche::check
