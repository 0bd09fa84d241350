#pragma once
// The text of an enumerator. Pure.
#include <cstddef>
#include <string_view>

namespace tranche {

// `names`: of all enumerators, which are 0, 1, 2, … in this order up to kLast. "" for a value that has none.
template <auto kLast, std::size_t kCount>
constexpr std::string_view enum_name(decltype(kLast) value, const std::string_view (&names)[kCount]) {
  static_assert(kCount == static_cast<std::size_t>(kLast) + 1, "each enumerator has one name");
  const auto at = static_cast<std::size_t>(value);
  return at < kCount ? names[at] : std::string_view();
}

}  // namespace tranche
