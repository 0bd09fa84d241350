#pragma once
// At which SM counts a simulated GPU leaves products partly unwritten. Measured on an H200 (132 SMs, driver
// 580.159.04, cuBLAS 13.0): half precision, success returned, nothing logged; 18-20, 26-28, 36, 44-60, 68 and 72-116
// wrong, 8-16, 22, 30-34, 38-42, 62-66, 70 and 118-132 right (data/sm-counts.yaml holds what is made of it). Pure.
#include <cstdint>
#include <string_view>

namespace tranche::sim {

// `spans` is "18-20,26-28" (TRANCHE_SIM_WRONG_SMS; "none" for a GPU that is always right); empty = as measured.
bool computes_wrong(std::uint32_t sms, std::string_view spans);

}  // namespace tranche::sim
