#include "simulate/quantity.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"

namespace tranche::simulate {
namespace {

struct Suffix {
  std::string_view text;
  int tens = 0;  // powers of ten
  int twos = 0;  // powers of two
};
constexpr std::array kSuffixes{Suffix{"", 0, 0},    Suffix{"n", -9, 0},  Suffix{"u", -6, 0},  Suffix{"m", -3, 0},
                               Suffix{"k", 3, 0},   Suffix{"M", 6, 0},   Suffix{"G", 9, 0},   Suffix{"T", 12, 0},
                               Suffix{"P", 15, 0},  Suffix{"E", 18, 0},  Suffix{"Ki", 0, 10}, Suffix{"Mi", 0, 20},
                               Suffix{"Gi", 0, 30}, Suffix{"Ti", 0, 40}, Suffix{"Pi", 0, 50}, Suffix{"Ei", 0, 60}};
constexpr std::size_t kMostDigits = 15;
constexpr std::int64_t kMostTens = 40;
constexpr std::uint64_t kCeiling = std::uint64_t{1} << 60;

struct Decimal {
  std::uint64_t digits = 0;
  std::int64_t tens = 0;  // value = digits × 10^tens
};

// The number at the front of `text`, which is taken off.
Result<Decimal> take_decimal(std::string_view& text) {
  std::string digits;
  Decimal decimal;
  bool dot = false;
  bool any = false;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = text.front();
    if (c == '.' && !dot) {
      dot = true;
    } else if (c >= '0' && c <= '9') {
      any = true;
      if (!digits.empty() || c != '0') digits += c;
      if (dot) --decimal.tens;
    } else {
      break;
    }
  }
  if (!any) return fail(Kind::kInvalid, "");
  for (; !digits.empty() && digits.back() == '0'; ++decimal.tens) digits.pop_back();
  if (digits.size() > kMostDigits) return fail(Kind::kInvalid, "has too many digits");
  decimal.digits = parse_unsigned(digits).value_or(0);
  return decimal;
}

// digits × 2^twos × 10^tens.
Result<std::uint64_t> whole(Decimal decimal, int twos) {
  std::uint64_t value = decimal.digits;
  if (value == 0) return 0;
  for (; twos > 0 && value < kCeiling; --twos) value *= 2;
  for (; decimal.tens < 0 && value % 10 == 0; ++decimal.tens) value /= 10;
  if (decimal.tens < 0 && twos == 0) return fail(Kind::kInvalid, "is not whole");
  for (; decimal.tens > 0 && value <= kMostDevices; --decimal.tens) value *= 10;
  if (twos > 0 || value > kMostDevices) return fail(Kind::kInvalid, "is more than any node has");
  return value;
}

}  // namespace

Result<std::uint64_t> parse_count(std::string_view text) {
  const std::string_view all = text;
  const auto none = [&] { return fail(Kind::kInvalid, "is " + in_quotes(all)); };
  if (text.starts_with('-')) return fail(Kind::kInvalid, "is negative");
  if (text.starts_with('+')) text.remove_prefix(1);
  auto decimal = take_decimal(text);
  if (!decimal) return decimal.error().what.empty() ? none() : std::unexpected(std::move(decimal).error());
  if (const auto suffix = std::ranges::find(kSuffixes, text, &Suffix::text); suffix != kSuffixes.end()) {
    decimal->tens += suffix->tens;
    return whole(*decimal, suffix->twos);
  }
  if (!text.starts_with('e') && !text.starts_with('E')) return none();
  text.remove_prefix(1);
  const bool plus = text.starts_with('+');
  if (plus) text.remove_prefix(1);
  const auto exponent = parse_signed(text);
  if (!exponent || (plus && *exponent < 0)) return none();
  decimal->tens += std::clamp(*exponent, -kMostTens, kMostTens);
  return whole(*decimal, 0);
}

}  // namespace tranche::simulate
