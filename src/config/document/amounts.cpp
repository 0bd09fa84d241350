#include "config/document/amounts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

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

// Removes a sign; true: it is a minus.
bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

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

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

// Decimal digits with an optional sign, point and exponent; no blanks, no "inf", no hexadecimal.
std::optional<double> parse_double(std::string_view text) {
  if (text.find_first_not_of("0123456789.eE+-") != std::string_view::npos || text.starts_with("+-"))
    return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

// Digits after an optional sign, with a prefix for the base: 0x, 0o, 0b, or 0 for octal.
std::optional<Scalar> parse_integer(std::string_view text) {
  const bool negative = take_sign(text);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char kind = text[1];
    base = kind == 'x' || kind == 'X' ? 16 : kind == 'b' || kind == 'B' ? 2 : 8;
    text.remove_prefix(base == 8 && kind != 'o' && kind != 'O' ? 1 : 2);
  }
  const auto value = parse_unsigned(text, base);
  if (!value) {
    const bool only_digits = !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (base != 10 || !only_digits) return std::nullopt;
    const auto large = parse_double(text);  // more than 64 bits
    if (!large) return std::nullopt;
    return Scalar{negative ? -*large : *large};
  }
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (*value <= kMax) {
    const auto small = static_cast<std::int64_t>(*value);
    return Scalar{negative ? -small : small};
  }
  if (negative && *value == kMax + 1) return Scalar{std::numeric_limits<std::int64_t>::min()};
  const auto large = static_cast<double>(*value);
  return Scalar{negative ? -large : large};
}

std::optional<Scalar> parse_number(std::string_view text) {
  const char first = text.front();
  if (first != '.' && first != '+' && first != '-' && (first < '0' || first > '9')) return std::nullopt;
  std::string plain(text);
  if (first != '.') std::erase(plain, '_');
  if (auto integer = parse_integer(plain)) return integer;
  if (const auto value = parse_double(plain)) return Scalar{*value};
  return std::nullopt;
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

std::optional<Duration> parse_duration(std::string_view text) {
  if (text == "infinite") return kInfinite;
  const bool negative = take_sign(text);
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

Scalar resolve_plain(std::string_view text) {
  if (text.empty() || is_one_of(text, {"~", "null", "Null", "NULL"})) return Null{};
  if (is_one_of(text, {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) return false;
  if (is_one_of(text, {".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
  if (is_one_of(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"}))
    return std::numeric_limits<double>::infinity();
  if (is_one_of(text, {"-.inf", "-.Inf", "-.INF"})) return -std::numeric_limits<double>::infinity();
  if (auto number = parse_number(text)) return *std::move(number);
  return std::string(text);
}

std::string describe(const Scalar& scalar) {
  struct Describe {
    std::string operator()(Null) const { return "nothing"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return fmt::format("the number {}", value); }
    std::string operator()(double value) const { return fmt::format("the number {}", value); }
    std::string operator()(const std::string& value) const { return "the text " + in_quotes(value); }
  };
  return std::visit(Describe{}, scalar);
}

}  // namespace tranche::config
