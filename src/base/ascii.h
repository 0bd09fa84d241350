#pragma once
// ASCII letters only, independent of the locale. Pure.

namespace tranche {

constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace tranche
