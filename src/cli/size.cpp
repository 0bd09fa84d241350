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
    switch (text[unit]) {
      case 'K':
      case 'k':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      case 'T':
        shift = 40;
        break;
      default:
        return std::nullopt;
    }
  }
  const auto number = parse_unsigned(text.substr(0, unit));
  if (!number || *number > (std::numeric_limits<std::uint64_t>::max() >> shift)) return std::nullopt;
  return Bytes{*number << shift};
}

}  // namespace tranche::cli
