#pragma once
// Quantities as the API server writes them ("6Gi", "20", "1073741824", "2500m", "1e3") → whole numbers, a fraction
// rounded up, as the scheduler counts. One amount has several spellings, so they are compared as numbers only. Pure;
// fuzzed by way of claims.
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace tranche::dra {

// kInvalid: it is no quantity, it is negative, or it does not fit into 64 bits; the text says which.
Result<std::uint64_t> parse_quantity(std::string_view text);

}  // namespace tranche::dra
