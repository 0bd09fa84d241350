#pragma once
// The names of the values of an enumeration, one row a value. Pure.
#include <cstddef>
#include <string_view>
#include <utility>

namespace tranche {

template <class Enum>
using Word = std::pair<Enum, std::string_view>;

// "" = the table has no row for it.
template <class Enum, std::size_t N>
constexpr std::string_view word_of(const Word<Enum> (&words)[N], Enum value) {
  for (const auto& [known, word] : words)
    if (known == value) return word;
  return {};
}

}  // namespace tranche
