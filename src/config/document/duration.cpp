#include "config/document/duration.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

namespace tranche::config {
namespace {

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 8> kDurationUnits{{
    {"ns", 1},
    {"us", 1'000},
    {"µs", 1'000},  // U+00B5
    {"μs", 1'000},  // U+03BC
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
}};
constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Parses "1.5s" at the front of `text` and removes it.
std::optional<std::uint64_t> take_part(std::string_view& text) {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;
  std::uint64_t scale = 1;
  bool digits = false;
  while (!text.empty() && is_digit(text.front())) {
    if (whole > kMost / 10) return std::nullopt;
    whole = whole * 10 + static_cast<std::uint64_t>(text.front() - '0');
    text.remove_prefix(1);
    digits = true;
  }
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    while (!text.empty() && is_digit(text.front())) {
      if (scale < 1'000'000'000'000ull) {  // further digits are less than a nanosecond of an hour
        fraction = fraction * 10 + static_cast<std::uint64_t>(text.front() - '0');
        scale *= 10;
      }
      text.remove_prefix(1);
      digits = true;
    }
  }
  if (!digits) return std::nullopt;
  std::size_t length = 0;
  while (length < text.size() && text[length] != '.' && !is_digit(text[length])) ++length;
  for (const auto& [unit, nanoseconds] : kDurationUnits) {
    if (text.substr(0, length) != unit) continue;
    text.remove_prefix(length);
    if (whole > kMost / nanoseconds) return std::nullopt;
    const auto part = static_cast<double>(fraction) * (static_cast<double>(nanoseconds) / static_cast<double>(scale));
    return whole * nanoseconds + static_cast<std::uint64_t>(part);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  if (text == "infinite") return kInfinite;
  bool negative = false;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (text == "0") return Duration(0);
  if (text.empty()) return std::nullopt;
  std::uint64_t total = 0;
  while (!text.empty()) {
    const auto part = take_part(text);
    if (!part || *part > kMost - total) return std::nullopt;
    total += *part;
  }
  const auto value = static_cast<std::int64_t>(total);
  return Duration(negative ? -value : value);
}

std::string render_duration(Duration duration) {
  if (duration == kInfinite) return "infinite";
  const std::int64_t count = duration.count();
  if (count == 0) return "0s";
  for (const auto& [unit, nanoseconds] :
       {kDurationUnits[7], kDurationUnits[6], kDurationUnits[5], kDurationUnits[4], kDurationUnits[1]}) {
    const auto step = static_cast<std::int64_t>(nanoseconds);
    const bool round = unit != "h" && unit != "m";  // "60s" reads better than "1m" next to NVIDIA's default
    if (count % step == 0 && (round || count / step > 1)) return fmt::format("{}{}", count / step, unit);
  }
  return fmt::format("{}ns", count);
}

}  // namespace tranche::config
