#include "kube/base64.h"

#include <cstdint>

namespace tranche::kube {
namespace {

int value_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

std::optional<std::string> base64_decoded(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;    // characters of the group so far, padding included
  int padding = 0;  // more than none: nothing but padding may follow
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    const int value = c == '=' ? 0 : value_of(c);
    const bool ended = padding > 0 && count == 0;
    if (value < 0 || ended || (padding > 0 && c != '=')) return std::nullopt;
    padding += c == '=' ? 1 : 0;
    if (padding > 2) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count = (count + 1) % 4;
    if (count != 0) continue;
    for (int byte = 0; byte < 3 - padding; ++byte) out += static_cast<char>((bits >> (16 - 8 * byte)) & 0xff);
    bits = 0;
  }
  return count == 0 ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace tranche::kube
