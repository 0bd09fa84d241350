#include <algorithm>

#include "base/utf8.h"
#include "observe/metrics/page.h"

namespace tranche::metrics {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// The printable ASCII at the beginning, which most names are.
std::size_t plain_length(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if(text, [](char c) { return c < 0x20 || c == 0x7f; }) -
                                  text.begin());
}

}  // namespace

std::string label_value(std::string_view text, std::size_t longest) {
  std::string out(text.substr(0, std::min(plain_length(text), longest)));
  text.remove_prefix(out.size());
  if (out.size() == longest) return out;
  while (!text.empty()) {
    const auto length = character_at(text);
    auto character = length == 0 ? kReplacement : text.substr(0, length);
    if (is_control(character)) character = kReplacement;
    if (out.size() + character.size() > longest) break;
    out += character;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace tranche::metrics
