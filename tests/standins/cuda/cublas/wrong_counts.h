#pragma once
// The SM counts with which a simulated GPU leaves parts of products unwritten. Measured on an H200 (132 SMs, driver
// 580.159.04, cuBLAS 13.0): half precision, success returned, nothing logged; 18-20, 26-28, 36, 44-60, 68 and 72-116
// wrong, 8-16, 22, 30-34, 38-42, 62-66, 70 and 118-132 right (data/sm-counts.yaml has the conclusions). Pure.
#include <cstdint>
#include <string_view>

namespace tranche::sim {

// `spans` is "18-20,26-28" (TRANCHE_SIM_WRONG_SMS; "none" for a GPU that is always right); empty = the measured ones.
bool computes_wrong(std::uint32_t sms, std::string_view spans);

}  // namespace tranche::sim
