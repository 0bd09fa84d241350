#include "config/names.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::config {
namespace {

bool is_lower_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// A lower-case RFC 1123 subdomain: labels of letters, digits and inner dashes, joined by dots.
bool is_subdomain(std::string_view text) {
  constexpr std::size_t kLongest = 253;
  if (text.empty() || text.size() > kLongest) return false;
  return std::ranges::all_of(split(text, '.'), [](std::string_view label) {
    return !label.empty() && is_lower_alphanumeric(label.front()) && is_lower_alphanumeric(label.back()) &&
           std::ranges::all_of(label, [](char c) { return is_lower_alphanumeric(c) || c == '-'; });
  });
}

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
}

// Dashed, undashed, braced or as a URN.
bool is_uuid(std::string_view text) {
  if (text.size() == 45 && text.starts_with("urn:uuid:")) text.remove_prefix(9);
  if (text.size() == 38 && text.front() == '{' && text.back() == '}') text = text.substr(1, 36);
  if (text.size() == 32) return is_hex(text);
  if (text.size() != 36) return false;
  const auto pieces = split(text, '-');
  constexpr std::size_t kLengths[] = {8, 4, 4, 4, 12};
  if (pieces.size() != std::size(kLengths)) return false;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].size() != kLengths[i] || !is_hex(pieces[i])) return false;
  return true;
}

bool is_index(std::string_view text) {
  return parse_unsigned(text).has_value();
}

}  // namespace

Result<std::string> resource_name(std::string_view text) {
  std::string full(text);
  if (!text.starts_with(kResourcePrefix)) full.insert(0, kResourcePrefix);
  if (full.size() > kLongestResourceName)
    return fail(Kind::kInvalid,
                in_quotes(full) + " has " + std::to_string(full.size()) + " characters, and 63 are the most");
  const std::string_view local = std::string_view(full).substr(full.find('/') + 1);
  if (!is_subdomain(local))
    return fail(Kind::kInvalid, in_quotes(local) +
                                    " is not a resource name: lower-case letters, digits, \"-\" and \".\" only, "
                                    "beginning and ending with a letter or digit");
  return full;
}

bool is_device_reference(std::string_view text) {
  if (is_index(text)) return true;
  if (const auto colon = text.find(':');
      colon != std::string_view::npos && !text.starts_with("MIG-") && !text.starts_with("GPU-"))
    return is_index(text.substr(0, colon)) && is_index(text.substr(colon + 1));
  if (text.starts_with("GPU-")) return is_uuid(text.substr(4));
  if (text.starts_with("MIG-GPU-")) {
    const auto pieces = split(text.substr(8), '/');
    return pieces.size() == 3 && is_uuid(pieces[0]) && is_index(pieces[1]) && is_index(pieces[2]);
  }
  return text.starts_with("MIG-") && is_uuid(text.substr(4));
}

}  // namespace tranche::config
