#include "standins/kubelet/resource_name.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::sim {
namespace {

bool lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool letter_or_digit(char c) {
  return lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

// The part after the slash: up to 63 characters, letters and digits at both ends, also "-", "_" and "." between.
bool is_name_part(std::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  if (!letter_or_digit(text.front()) || !letter_or_digit(text.back())) return false;
  return std::ranges::all_of(text, [](char c) { return letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

bool is_dns_label(std::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  if (!lower_or_digit(text.front()) || !lower_or_digit(text.back())) return false;
  return std::ranges::all_of(text, [](char c) { return lower_or_digit(c) || c == '-'; });
}

bool is_dns_subdomain(std::string_view text) {
  if (text.empty() || text.size() > 253) return false;
  return std::ranges::all_of(split(text, '.'), [](std::string_view piece) {
    return !piece.empty() && lower_or_digit(piece.front()) && lower_or_digit(piece.back()) &&
           std::ranges::all_of(piece, [](char c) { return lower_or_digit(c) || c == '-'; });
  });
}

bool is_extended_resource(std::string_view name) {
  const auto slash = name.find('/');
  if (slash == std::string_view::npos || name.find("kubernetes.io/") != std::string_view::npos) return false;
  if (name.starts_with("requests.")) return false;  // quota names
  const std::string_view domain = name.substr(0, slash);
  // Quotas prefix the name with "requests.", and the result must still be valid: nine characters less.
  return domain.size() <= 253 - 9 && is_dns_subdomain(domain) && is_name_part(name.substr(slash + 1));
}

}  // namespace tranche::sim
