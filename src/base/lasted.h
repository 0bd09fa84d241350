#pragma once
// A duration as text for people. Pure.
#include <cstdint>
#include <string>

namespace tranche {

std::string lasted(std::uint64_t ms);  // "2d 3h", "3h 10m", "7m", "40s"

}  // namespace tranche
