#pragma once
// Quantities in Kubernetes' notation: "6Gi", "20", "2500m", "1e3". One amount has several spellings, so they are
// compared as numbers only. Pure.
#include <cstdint>
#include <optional>
#include <string_view>

namespace tranche {

struct Quantity {
  bool negative = false;                 // the value is without its sign
  bool whole = true;                     // false: a fraction was rounded up, as the scheduler counts
  std::optional<std::uint64_t> value{};  // absent: it does not fit
};
// Absent: the text is not a quantity, or has more digits than any that fits.
std::optional<Quantity> read_quantity(std::string_view text);

}  // namespace tranche
