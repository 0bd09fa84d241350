#include "config/document/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/text.h"

namespace tranche::config {
namespace {

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
  bool negative = false;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
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
