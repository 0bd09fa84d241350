#include "cli/size.h"

#include <limits>

#include "base/text.h"

namespace tranche::cli {

std::optional<Bytes> parse_size(std::string_view text) {
  int shift = 0;
  const auto unit = text.find_first_not_of("0123456789");
  if (unit != std::string_view::npos) {
    std::string_view suffix = text.substr(unit + 1);
    if (!suffix.empty() && suffix != "iB" && suffix != "i") return std::nullopt;
    const auto power = std::string_view("KMGT").find(text[unit] == 'k' ? 'K' : text[unit]);
    if (power == std::string_view::npos) return std::nullopt;
    shift = 10 * (static_cast<int>(power) + 1);
  }
  const auto number = parse_unsigned(text.substr(0, unit));
  if (!number || *number > (std::numeric_limits<std::uint64_t>::max() >> shift)) return std::nullopt;
  return Bytes{*number << shift};
}

}  // namespace tranche::cli
