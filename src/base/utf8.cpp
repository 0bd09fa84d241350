#include "base/utf8.h"

#include <fmt/format.h>

#include <cstdint>

namespace tranche {
namespace {

void put_escaped(std::string& out, std::string_view bytes) {
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(c));
}

}  // namespace

std::size_t character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto follows = [&](std::size_t i, std::uint8_t low = 0x80, std::uint8_t high = 0xbf) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  if (text.empty()) return 0;
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
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  return character.size() == 2 && byte(0) == 0xc2 && byte(1) < 0xa0;
}

std::string_view first_bytes(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  std::size_t end = most_bytes;
  while (end > 0 && (static_cast<std::uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

std::string cut_text(std::string_view text, std::size_t most_bytes) {
  constexpr std::string_view kMore = "…";
  if (text.size() <= most_bytes) return std::string(text);
  if (most_bytes < kMore.size()) return {};
  return std::string(first_bytes(text, most_bytes - kMore.size())) + std::string(kMore);
}

std::string visible_text(std::string_view text, std::string_view marked) {
  std::string out;
  while (!text.empty()) {
    const auto length = character_at(text);
    const auto character = text.substr(0, length == 0 ? 1 : length);
    if (character == "\n") {
      out += "\\n";
    } else if (length == 0 || is_control(character)) {
      put_escaped(out, character);
    } else {
      if (length == 1 && marked.contains(character[0])) out += '\\';
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace tranche
