#pragma once
// Quantities in Kubernetes' notation: "6Gi", "20", "2500m", "1e3". One amount has several spellings, so they are
// compared as numbers only. Pure.
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace tranche {

struct Quantity {
  bool negative = false;                 // the value is without its sign
  bool whole = true;                     // false: a fraction was rounded up, as the scheduler counts
  std::optional<std::uint64_t> value{};  // absent: it does not fit
};
// Absent: the text is not a quantity, or has more digits than any that fits.
std::optional<Quantity> read_quantity(std::string_view text);

// A whole number, a fraction rounded up. kInvalid: it is not a quantity, it is negative, or it does not fit into 64
// bits; the text says which.
Result<std::uint64_t> parse_quantity(std::string_view text);

inline constexpr std::uint64_t kMostDevices = 1'000'000'000;
// A count of an extended resource, which is a whole number but may be written "2", "2k", "1e1", "1000m", "1Ki". The
// error's text continues "must be a whole number of devices, but ".
Result<std::uint64_t> parse_count(std::string_view text);

// Sizes on a command line: "512M", "3G", "14377MiB", "1GiB", "4096" (bytes). Binary units, as in MPS.
std::optional<Bytes> parse_size(std::string_view text);

}  // namespace tranche
