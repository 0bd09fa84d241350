#pragma once
// Whether a text may stand in a message: UTF-8 on one line without a control character.
#include <string_view>

#include "base/utf8.h"

namespace tranche::fuzz {

inline bool is_harmless(std::string_view text) {
  while (!text.empty()) {
    const auto length = character_at(text);
    if (length == 0 || is_control(text.substr(0, length))) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace tranche::fuzz
