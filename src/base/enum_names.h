#pragma once
// The text of an enumerator, and back. Pure.
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tranche {

// `names`: of all enumerators, which are 0, 1, 2, … in this order up to kLast. "" for a value that has none.
template <auto kLast, std::size_t kCount>
constexpr std::string_view enum_name(decltype(kLast) value, const std::string_view (&names)[kCount]) {
  static_assert(kCount == static_cast<std::size_t>(kLast) + 1, "each enumerator has one name");
  const auto at = static_cast<std::size_t>(value);
  return at < kCount ? names[at] : std::string_view();
}

// Beside an enumeration: its to_string(), with the names of all enumerators up to `last`.
#define ENUM_NAMES(last, ...)                                  \
  constexpr std::string_view to_string(decltype(last) value) { \
    return ::tranche::enum_name<last>(value, {__VA_ARGS__});   \
  }

template <class T>
concept Enumeration = std::is_enum_v<T>;

// The names that to_string() has, in the order of the enumerators.
template <Enumeration Enum>
constexpr std::vector<std::string_view> enum_names() {
  std::vector<std::string_view> names;
  for (auto name = to_string(Enum{}); !name.empty(); name = to_string(static_cast<Enum>(names.size())))
    names.push_back(name);
  return names;
}

// The enumerator whose to_string() is `name`; absent = there is none.
template <Enumeration Enum>
constexpr std::optional<Enum> enum_of(std::string_view name) {
  const auto names = enum_names<Enum>();
  for (std::size_t at = 0; at < names.size(); ++at)
    if (names[at] == name) return static_cast<Enum>(at);
  return std::nullopt;
}

}  // namespace tranche
