#pragma once
// Text inside a mapped file: a fixed number of bytes, always terminated by a NUL; longer text is cut off. Plain data.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace tranche::sim {

template <std::size_t N>
struct FixedText {
  char chars[N];

  FixedText& operator=(std::string_view text) {
    const std::size_t length = std::min(text.size(), N - 1);
    if (length > 0) std::memcpy(chars, text.data(), length);
    std::memset(chars + length, 0, N - length);
    return *this;
  }
  // Stops at the end of the array even when a writer died between two bytes.
  std::string_view view() const { return {chars, strnlen(chars, N - 1)}; }
  std::string str() const { return std::string(view()); }
  bool empty() const { return view().empty(); }
};

}  // namespace tranche::sim
