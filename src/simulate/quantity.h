#pragma once
// Kubernetes quantities as counts: extended resources are whole numbers, but may be written "2", "2k", "1e1", "1000m",
// "1Ki". Pure.
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace tranche::simulate {

inline constexpr std::uint64_t kMostDevices = 1'000'000'000;

// The error's text reads on after "must be a whole number of devices, but ".
Result<std::uint64_t> parse_count(std::string_view text);

}  // namespace tranche::simulate
