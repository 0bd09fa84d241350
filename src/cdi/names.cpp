#include "cdi/names.h"

#include <algorithm>

#include "base/text.h"

namespace tranche::cdi {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_alphanumeric(char c) {
  return is_letter(c) || (c >= '0' && c <= '9');
}

std::string fault_of_name(std::string_view name, std::string_view between, std::size_t longest, bool digit_first) {
  if (name.empty()) return "must not be empty";
  if (name.size() > longest) return "must have at most " + std::to_string(longest) + " characters";
  if (!(digit_first ? is_alphanumeric(name.front()) : is_letter(name.front())))
    return std::string("must start with a letter") + (digit_first ? " or digit" : "");
  if (!is_alphanumeric(name.back())) return "must end with a letter or digit";
  const auto odd = std::ranges::find_if(
      name, [&](char c) { return !is_alphanumeric(c) && between.find(c) == std::string_view::npos; });
  if (odd != name.end()) {
    return "must be of letters, digits and " + in_quotes(between) + ", but has " +
           in_quotes(std::string_view(&*odd, 1));
  }
  return {};
}

}  // namespace

std::string fault_of_vendor(std::string_view vendor) {
  return fault_of_name(vendor, "_-.", 253, false);
}

std::string fault_of_class(std::string_view cls) {
  return fault_of_name(cls, "_-.", 63, false);
}

std::string fault_of_device(std::string_view name) {
  return fault_of_name(name, "_-.:", 253, true);
}

std::string fault_of_env(std::string_view entry) {
  if (entry.find('\0') != std::string_view::npos) return "must not have a zero byte";
  const auto equals = entry.find('=');
  if (equals == std::string_view::npos || equals == 0) return "must be written NAME=value";
  return {};
}

std::string fault_of_path(std::string_view path) {
  if (path.empty()) return "must not be empty";
  if (path.front() != '/') return "must be absolute, starting with /";
  if (path.find('\0') != std::string_view::npos) return "must not have a zero byte";
  for (const auto piece : split(path, '/'))
    if (piece == "..") return "must not have \"..\" in it";
  return {};
}

}  // namespace tranche::cdi
