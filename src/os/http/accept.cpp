#include "os/http/accept.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/ascii.h"
#include "base/text.h"

namespace tranche::host {
namespace {

bool same(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, to_lower, to_lower);
}

// "a/b; version=1" → "1" of "version".
std::optional<std::string_view> parameter(std::string_view text, std::string_view name) {
  const auto parts = split(text, ';');
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto equals = std::min(parts[i].find('='), parts[i].size());
    if (same(trimmed(parts[i].substr(0, equals)), name))
      return trimmed(parts[i].substr(std::min(equals + 1, parts[i].size())));
  }
  return std::nullopt;
}

std::string_view name_of(std::string_view text) {
  return trimmed(text.substr(0, text.find(';')));
}

double weight(std::string_view range) {
  const auto text = parameter(range, "q");
  if (!text) return 1;
  double value = 0;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == text->data() + text->size();
  return whole && value >= 0 && value <= 1 ? value : 0;
}

// How exactly the range names the type: 2, 1 ("text/*"), 0 ("*/*"), or -1: it does not.
int match(std::string_view range, std::string_view content_type) {
  const auto wanted = name_of(range), type = name_of(content_type);
  if (wanted == "*/*") return 0;
  if (wanted.ends_with("/*"))
    return same(wanted.substr(0, wanted.size() - 1), type.substr(0, type.find('/') + 1)) ? 1 : -1;
  if (!same(wanted, type)) return -1;
  const auto version = parameter(range, "version");
  return !version || version == parameter(content_type, "version") ? 2 : -1;
}

}  // namespace

double quality(std::string_view accept, std::string_view content_type) {
  if (trimmed(accept).empty()) return 1;
  int best = -1;
  double quality = 0;
  for (const auto range : split(accept, ',')) {
    const int exact = match(range, content_type);
    if (exact < 0 || exact < best) continue;
    quality = exact > best ? weight(range) : std::max(quality, weight(range));
    best = exact;
  }
  return quality;
}

}  // namespace tranche::host
