#include "config/document/amounts.h"

#include <array>
#include <cmath>

#include "base/text.h"

namespace tranche::config {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<Unit, 6> kSizeUnits{{{"Mi", std::uint64_t{1} << 20},
                                          {"Gi", std::uint64_t{1} << 30},
                                          {"Ti", std::uint64_t{1} << 40},
                                          {"M", 1'000'000},
                                          {"G", 1'000'000'000},
                                          {"T", 1'000'000'000'000}}};
constexpr std::uint64_t kMostWhole = 2'000'000'000;           // keeps every product below within 64 bits
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;  // 1024 TiB

// "1.5" → 1500, in thousandths.
std::optional<std::uint64_t> thousandths(std::string_view text) {
  const auto dot = text.find('.');
  const auto whole = parse_unsigned(text.substr(0, dot));
  if (!whole || *whole > kMostWhole) return std::nullopt;
  std::uint64_t value = *whole * 1000;
  if (dot == std::string_view::npos) return value;
  const std::string_view places = text.substr(dot + 1);
  if (places.empty() || places.size() > 3) return std::nullopt;
  const auto rest = parse_unsigned(places);
  if (!rest) return std::nullopt;
  value += *rest * (places.size() == 1 ? 100 : places.size() == 2 ? 10 : 1);
  return value;
}

}  // namespace

std::optional<Bytes> parse_memory_size(std::string_view text) {
  for (const Unit& unit : kSizeUnits) {
    if (!text.ends_with(unit.name)) continue;
    const auto amount = thousandths(text.substr(0, text.size() - unit.name.size()));
    if (!amount || *amount > kMostBytes / unit.bytes * 1000) return std::nullopt;
    // Whole units first, so that the result neither overflows nor loses digits.
    const std::uint64_t bytes = *amount / 1000 * unit.bytes + *amount % 1000 * unit.bytes / 1000;
    const Bytes size = mib(Bytes{bytes}.in_mib());
    return size.value == 0 ? std::nullopt : std::optional(size);
  }
  return std::nullopt;
}

std::string render_memory_size(Bytes size) {
  if (size.value % gib(1).value == 0) return std::to_string(size.value >> 30) + "Gi";
  return std::to_string(size.in_mib()) + "Mi";
}

std::optional<std::uint32_t> read_factor(const Scalar& scalar) {
  double value = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&scalar))
    value = static_cast<double>(*whole);
  else if (const auto* real = std::get_if<double>(&scalar))
    value = *real;
  if (!(value >= 0.01 && value <= 100)) return std::nullopt;
  const double hundredths = std::round(value * 100);
  constexpr double kSlack = 1e-6;  // error of a decimal as a binary fraction
  if (std::abs(value * 100 - hundredths) > kSlack) return std::nullopt;
  return static_cast<std::uint32_t>(hundredths);
}

std::string render_factor(std::uint32_t hundredths) {
  return to_string(Percent{hundredths});
}

}  // namespace tranche::config
