#pragma once
// The words for the values of each enumeration in files, flags and variables: `kWords<Enum>`, beside the enumeration,
// has those of all its enumerators, which are 0, 1, 2, … in this order. Pure.
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tranche::config {

template <class... Text>
constexpr std::array<std::string_view, sizeof...(Text)> enum_words(const Text&... text) {
  return {text...};
}

template <class Enum>
inline constexpr auto kWords = enum_words();

template <class Enum>
concept Worded = !kWords<Enum>.empty();

// "" for a value that is not an enumerator.
template <Worded Enum>
constexpr std::string_view to_string(Enum value) {
  const auto at = static_cast<std::size_t>(value);
  return at < kWords<Enum>.size() ? kWords<Enum>[at] : std::string_view();
}

template <Worded Enum>
std::string word(Enum value) {
  return std::string(to_string(value));
}

template <Worded Enum>
constexpr std::optional<Enum> from_word(std::string_view word) {
  for (std::size_t at = 0; at < kWords<Enum>.size(); ++at)
    if (kWords<Enum>[at] == word) return static_cast<Enum>(at);
  return std::nullopt;
}

// "none, single or mixed"
inline std::string text_of_all(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

// The boolean values of flags and variables, which are Go's.
inline std::optional<bool> parse_switch(std::string_view text) {
  for (const char* word : {"1", "t", "T", "true", "True", "TRUE"})
    if (text == word) return true;
  for (const char* word : {"0", "f", "F", "false", "False", "FALSE"})
    if (text == word) return false;
  return std::nullopt;
}

}  // namespace tranche::config
