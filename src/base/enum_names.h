#pragma once
// The text of an enumerator, and back. Pure.
#include <cstddef>
#include <optional>
#include <string_view>

namespace tranche {

// `names`: of all enumerators, which are 0, 1, 2, … in this order up to kLast. "" for a value that has none.
template <auto kLast, std::size_t kCount>
constexpr std::string_view enum_name(decltype(kLast) value, const std::string_view (&names)[kCount]) {
  static_assert(kCount == static_cast<std::size_t>(kLast) + 1, "each enumerator has one name");
  const auto at = static_cast<std::size_t>(value);
  return at < kCount ? names[at] : std::string_view();
}

// The enumerator, up to kLast, whose to_string() is `name`; absent = there is none.
template <auto kLast>
std::optional<decltype(kLast)> enum_of(std::string_view name) {
  for (std::size_t at = 0; at <= static_cast<std::size_t>(kLast); ++at)
    if (const auto value = static_cast<decltype(kLast)>(at); to_string(value) == name) return value;
  return std::nullopt;
}

}  // namespace tranche
