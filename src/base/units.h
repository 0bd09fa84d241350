#pragma once
// Types for quantities that must not be confused: bytes of memory and percentages of a GPU. And quantities in
// Kubernetes' notation: "6Gi", "20", "2500m", "1e3"; one amount has several spellings, so they are compared as numbers
// only. Pure.
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche {

struct Bytes {
  std::uint64_t value = 0;

  constexpr std::uint64_t in_mib() const { return value >> 20; }  // rounded down, as MPS limits are written
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.value + b.value}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.value - b.value}; }
};
constexpr Bytes mib(std::uint64_t n) {
  return {n << 20};
}
constexpr Bytes gib(std::uint64_t n) {
  return {n << 30};
}

// "3.50 GiB", "512 MiB": for people.
std::string to_string(Bytes bytes);

// A part of a GPU's threads in hundredths of a percent: MPS accepts fractions such as 12.5.
struct Percent {
  std::uint32_t hundredths = 0;

  static constexpr Percent whole(std::uint32_t n) { return {n * 100}; }
  constexpr double value() const { return hundredths / 100.0; }
  friend constexpr auto operator<=>(Percent, Percent) = default;
};
// "25", "12.5", "33.33": the shortest decimal, as the MPS control daemon accepts it.
std::string to_string(Percent percent);

// A decimal of at most two places from 0 to 1000000, such as "25.0" or "12.5"; the whole text must be the number.
Result<Percent> parse_percent(std::string_view text);

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

}  // namespace tranche
