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
#include "base/units.h"

namespace tranche::config {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;  // 1024 TiB

// Removes a sign; true: it is a minus.
bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
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
  const auto take = [&text](std::size_t size) {
    const auto taken = text.substr(0, size);
    text.remove_prefix(taken.size());
    return taken;
  };
  constexpr const char* kDigits = "0123456789";
  const auto whole = take(text.find_first_not_of(kDigits));
  const auto point = take(text.starts_with('.') ? 1 : 0);
  auto places = point.empty() ? point : take(text.find_first_not_of(kDigits));
  if (whole.empty() && places.empty()) return std::nullopt;
  places = places.substr(0, 12);  // further digits are less than a nanosecond of an hour
  const auto amount = whole.empty() ? 0 : parse_unsigned(whole);
  const auto unit = take(text.find_first_of(".0123456789"));
  const auto known = std::ranges::find(kDurationUnits, unit, [](const auto& each) { return each.first; });
  if (!amount || known == kDurationUnits.end() || *amount > kMost / known->second) return std::nullopt;
  const double fraction = static_cast<double>(parse_unsigned(places).value_or(0));
  const double each = static_cast<double>(known->second) / std::pow(10, places.size());
  return *amount * known->second + static_cast<std::uint64_t>(fraction * each);
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
  if (*value <= kMost) {
    const auto small = static_cast<std::int64_t>(*value);
    return Scalar{negative ? -small : small};
  }
  if (negative && *value == kMost + 1) return Scalar{std::numeric_limits<std::int64_t>::min()};
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
  const std::string_view number = text.substr(0, text.find_first_not_of("0123456789."));
  const std::size_t whole = std::min(number.find('.'), number.size());
  const std::size_t fraction = number.size() - whole;  // with the point
  if (whole == 0 || fraction == 1 || fraction > 4) return std::nullopt;
  if (!is_one_of(text.substr(number.size()), {"Mi", "Gi", "Ti", "M", "G", "T"})) return std::nullopt;
  const auto quantity = read_quantity(text);
  if (!quantity || !quantity->value || *quantity->value > kMostBytes) return std::nullopt;
  const Bytes size = mib(Bytes{*quantity->value}.in_mib());
  return size.value == 0 ? std::nullopt : std::optional(size);
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
  if (const auto* value = std::get_if<bool>(&scalar)) return *value ? "true" : "false";
  if (const auto* value = std::get_if<std::int64_t>(&scalar)) return fmt::format("the number {}", *value);
  if (const auto* value = std::get_if<double>(&scalar)) return fmt::format("the number {}", *value);
  const auto* text = std::get_if<std::string>(&scalar);
  return text == nullptr ? "nothing" : "the text " + in_quotes(*text);
}

}  // namespace tranche::config
