#include "dra/quantity.h"

#include <limits>
#include <optional>

#include "base/text.h"

namespace tranche::dra {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::size_t kMostDigits = 20;  // with the largest suffix 128 bits hold them
constexpr int kLargestExponent = 18;

std::unexpected<Error> wrong(std::string_view text, std::string_view why) {
  return fail(tranche::Kind::kInvalid, in_quotes(text) + std::string(why));
}

struct Scale {
  int tens = 0;
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
  if (suffix.starts_with('+')) suffix.remove_prefix(1);
  const auto exponent = parse_signed(suffix);
  if (!exponent || *exponent < -kLargestExponent || *exponent > kLargestExponent) return std::nullopt;
  return Scale{static_cast<int>(*exponent), 0};
}

}  // namespace

Result<std::uint64_t> parse_quantity(std::string_view text) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  Wide value = 0;
  std::size_t digits = 0;
  int fraction = 0;
  bool point = false;
  while (!rest.empty() && ((rest.front() >= '0' && rest.front() <= '9') || (rest.front() == '.' && !point))) {
    if (rest.front() == '.') {
      point = true;
    } else {
      if (++digits > kMostDigits) return wrong(text, " has more digits than a quantity can have");
      value = value * 10 + static_cast<Wide>(rest.front() - '0');
      if (point) ++fraction;
    }
    rest.remove_prefix(1);
  }
  const auto scale = scale_of(rest);
  if (digits == 0 || !scale) return wrong(text, " is not a quantity");
  if (negative && value != 0) return wrong(text, " is negative");
  value <<= scale->twos;
  int tens = scale->tens - fraction;
  for (; tens > 0; --tens) value *= 10;
  Wide divisor = 1;
  for (; tens < 0; ++tens) divisor *= 10;
  value = value / divisor + (value % divisor != 0 ? 1 : 0);
  if (value > std::numeric_limits<std::uint64_t>::max()) return wrong(text, " does not fit into 64 bits");
  return static_cast<std::uint64_t>(value);
}

}  // namespace tranche::dra
