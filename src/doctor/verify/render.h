#pragma once
// A report for people, for programs, and for whatever shows test results (JUnit's XML). Pure.
#include <string>

#include "doctor/verify/report.h"

namespace tranche::verify {

std::string line_of(const Check& check, bool colour);  // with its remedy on a second line; as it is found
std::string summary_of(const Report& report);          // the last line
std::string to_json(const Report& report);             // one object, indented
std::string to_junit(const Report& report);

}  // namespace tranche::verify
