#include <cstdint>

#include "metrics/page.h"

namespace tranche::metrics {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// How many bytes the character at the beginning of `text` takes; 0 when there is no valid one (RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF).
std::size_t character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto follows = [&](std::size_t i, std::uint8_t low = 0x80, std::uint8_t high = 0xbf) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const std::uint8_t low = first == 0xe0 ? 0xa0 : 0x80;
    const std::uint8_t high = first == 0xed ? 0x9f : 0xbf;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const std::uint8_t low = first == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t high = first == 0xf4 ? 0x8f : 0xbf;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<std::uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return character.size() == 2 && first == 0xc2 && static_cast<std::uint8_t>(character[1]) < 0xa0;  // U+0080 to U+009F
}

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
