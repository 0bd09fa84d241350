#include "base/units.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tranche {

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

}  // namespace tranche
