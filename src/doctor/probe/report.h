#pragma once
// A probe's report for people and for programs. Pure.
#include <string>

#include "doctor/probe/probe.h"

namespace tranche::probe {

std::string to_text(const ProbeReport& report);
std::string to_json(const ProbeReport& report);  // one object, indented; sizes in bytes, times in milliseconds

// "connected", "limits set" or "no sign", and why one may think so.
std::string mps_verdict(const MpsSign& sign);

}  // namespace tranche::probe
