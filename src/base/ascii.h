#pragma once
// ASCII letters only, independent of the locale. Pure.
#include <algorithm>
#include <string_view>

namespace tranche {

constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

constexpr bool same_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, to_lower, to_lower);
}

}  // namespace tranche
