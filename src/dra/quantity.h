#pragma once
// Quantities as the API server writes them → whole numbers, a fraction rounded up. Pure; fuzzed by way of claims.
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace tranche::dra {

// kInvalid: it is no quantity, it is negative, or it does not fit into 64 bits; the text says which.
Result<std::uint64_t> parse_quantity(std::string_view text);

}  // namespace tranche::dra
