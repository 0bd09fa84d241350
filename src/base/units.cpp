#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace tranche {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::size_t kMostDigits = 20;  // with the largest suffix 128 bits hold them
constexpr std::int64_t kMostTens = 40;   // more makes any such number 0 or too large

struct Scale {
  std::int64_t tens = 0;
  int twos = 0;
};

std::optional<Scale> scale_of(std::string_view suffix) {
  constexpr struct {
    std::string_view text;
    Scale scale;
  } kSuffixes[] = {{"", {}},        {"n", {-9, 0}},  {"u", {-6, 0}},  {"m", {-3, 0}}, {"k", {3, 0}},   {"M", {6, 0}},
                   {"G", {9, 0}},   {"T", {12, 0}},  {"P", {15, 0}},  {"E", {18, 0}}, {"Ki", {0, 10}}, {"Mi", {0, 20}},
                   {"Gi", {0, 30}}, {"Ti", {0, 40}}, {"Pi", {0, 50}}, {"Ei", {0, 60}}};
  for (const auto& [known, scale] : kSuffixes)
    if (suffix == known) return scale;
  if (suffix.front() != 'e' && suffix.front() != 'E') return std::nullopt;
  suffix.remove_prefix(1);
  const bool plus = suffix.starts_with('+');
  if (plus) suffix.remove_prefix(1);
  const auto exponent = parse_signed(suffix);
  if (!exponent || (plus && *exponent < 0)) return std::nullopt;
  return Scale{std::clamp(*exponent, -kMostTens, kMostTens), 0};
}

}  // namespace

std::string to_string(Bytes bytes) {
  const auto value = static_cast<double>(bytes.value);
  if (bytes.value >= gib(1).value) return fmt::format("{:.2f} GiB", value / static_cast<double>(gib(1).value));
  if (bytes.value >= mib(1).value) return fmt::format("{:.0f} MiB", value / static_cast<double>(mib(1).value));
  return fmt::format("{} B", bytes.value);
}

std::string to_string(Percent percent) {
  const auto whole = percent.hundredths / 100;
  const auto rest = percent.hundredths % 100;
  if (rest == 0) return fmt::format("{}", whole);
  if (rest % 10 == 0) return fmt::format("{}.{}", whole, rest / 10);
  return fmt::format("{}.{:02}", whole, rest);
}

Result<Percent> parse_percent(std::string_view text) {
  const auto refuse = [&] { return fail(Kind::kInvalid, "not a percentage: " + in_quotes(text)); };
  const auto dot = text.find('.');
  const auto whole = parse_unsigned(text.substr(0, dot));
  if (!whole || *whole > 1'000'000) return refuse();
  std::uint32_t hundredths = static_cast<std::uint32_t>(*whole) * 100;
  if (dot != std::string_view::npos) {
    std::string_view places = text.substr(dot + 1);
    while (places.size() > 2 && places.back() == '0') places.remove_suffix(1);
    const auto rest = parse_unsigned(places);
    if (!rest || places.size() > 2) return refuse();
    hundredths += static_cast<std::uint32_t>(places.size() == 1 ? *rest * 10 : *rest);
  }
  return Percent{hundredths};
}

std::optional<Quantity> read_quantity(std::string_view text) {
  Quantity quantity;
  quantity.negative = text.starts_with('-');
  if (quantity.negative || text.starts_with('+')) text.remove_prefix(1);
  std::string digits;  // without zeros in front
  std::int64_t places = 0;
  bool point = false, any = false;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = text.front();
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any = true;
    if (!digits.empty() || c != '0') digits += c;
    if (point) ++places;
  }
  for (; digits.ends_with('0'); --places) digits.pop_back();
  const auto scale = scale_of(text);
  if (!any || !scale || digits.size() > kMostDigits) return std::nullopt;

  constexpr Wide kLargest = std::numeric_limits<std::uint64_t>::max();
  Wide value = 0;
  for (const char digit : digits) value = value * 10 + static_cast<Wide>(digit - '0');
  value <<= scale->twos;
  std::int64_t tens = std::clamp(scale->tens - places, -kMostTens, kMostTens);
  for (; tens < 0; ++tens) {
    const bool rest = value % 10 != 0;
    quantity.whole = quantity.whole && !rest;
    value = value / 10 + (rest ? 1 : 0);
  }
  for (; tens > 0 && value <= kLargest; --tens) value *= 10;
  if (value <= kLargest) quantity.value = static_cast<std::uint64_t>(value);
  return quantity;
}

Result<std::uint64_t> parse_quantity(std::string_view text) {
  const auto wrong = [text](const char* why) { return fail(Kind::kInvalid, in_quotes(text) + why); };
  const auto quantity = read_quantity(text);
  if (!quantity) return wrong(" is not a quantity");
  if (quantity->negative && quantity->value != 0) return wrong(" is negative");
  if (!quantity->value) return wrong(" does not fit into 64 bits");
  return *quantity->value;
}

Result<std::uint64_t> parse_count(std::string_view text) {
  const auto quantity = read_quantity(text);
  if (text.starts_with('-')) return fail(Kind::kInvalid, "is negative");
  if (!quantity) return fail(Kind::kInvalid, "is " + in_quotes(text));
  if (!quantity->whole) return fail(Kind::kInvalid, "is not whole");
  if (!quantity->value || *quantity->value > kMostDevices) return fail(Kind::kInvalid, "is more than any node has");
  return *quantity->value;
}

}  // namespace tranche
