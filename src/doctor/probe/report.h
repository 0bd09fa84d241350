#pragma once
// A probe's report for people and for programs. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "doctor/probe/probe.h"

namespace tranche::probe {

std::string to_text(const ProbeReport& report);
std::string to_json(const ProbeReport& report);  // one object, indented; sizes in bytes, times in milliseconds

// The part about matrix products: gemm_report.cpp.
std::string gemm_text(const GemmReport& report);
nlohmann::ordered_json gemm_json(const GemmReport& report);

// "connected", "limits set" or "no sign", and why one may think so.
std::string mps_verdict(const MpsSign& sign);

}  // namespace tranche::probe
