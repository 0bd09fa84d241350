#pragma once
// What was found, for people and for programs. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "gemm-check/gemm.h"

namespace tranche::gemm_check {

std::string gemm_text(const GemmReport& report);
nlohmann::ordered_json gemm_json(const GemmReport& report);

}  // namespace tranche::gemm_check
