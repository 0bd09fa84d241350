#include "base/utf8.h"
#include "observe/metrics/page.h"

namespace tranche::metrics {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

}  // namespace

std::string label_value(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto length = character_at(text);
    auto character = length == 0 ? kReplacement : text.substr(0, length);
    if (is_control(character)) character = kReplacement;
    if (out.size() + character.size() > kLongestLabelValue) break;
    out += character;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace tranche::metrics
