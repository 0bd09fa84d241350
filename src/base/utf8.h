#pragma once
// Turns bytes from outside into text that every document accepts: valid UTF-8, cut between characters. Sizes are in
// bytes. Pure.
#include <cstddef>
#include <string>
#include <string_view>

namespace tranche {

// The size of the character at the beginning of `text`; 0 if it is empty or not valid (RFC 3629: no overlong form, no
// surrogate, nothing above U+10FFFF).
std::size_t character_at(std::string_view text);
bool is_control(std::string_view character);  // U+0000 to U+001F and U+007F to U+009F

std::string_view first_bytes(std::string_view text, std::size_t most_bytes);  // does not end inside a character
std::string cut_text(std::string_view text, std::size_t most_bytes);  // first_bytes, with "…" at the end when cut

// On one line and harmless to a terminal: control characters and bytes that are not UTF-8 become \n, \x1b, \xff. A
// character in `marked` gets a backslash before it.
std::string visible_text(std::string_view text, std::string_view marked = {});

}  // namespace tranche
