#pragma once
// The only place that turns a JSON value into text, and that parses JSON from other processes. Strings may hold any
// bytes (a configuration, a driver, a proxy's page): bytes that are not UTF-8 become U+FFFD instead of an exception.
// Pure.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tranche {

// On one line, or with `indent` spaces a level. No line end at the end.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);
std::string json_in_ascii(const nlohmann::ordered_json& value);  // on one line; beyond ASCII as \u escapes

// Discarded if the text is not JSON, or is deeper than 100 levels: copying and printing a value recurse, and 16 MiB of
// text could have 16 million levels. Nothing throws.
nlohmann::json json_of(std::string_view text);
// The same without the elements of the list at `key`: `element` receives each one when it is parsed, so that a long
// list is never held as a whole. The elements are invalid if the result is discarded.
nlohmann::json json_of_list(std::string_view text, std::string_view key,
                            const std::function<void(const nlohmann::json&)>& element);

}  // namespace tranche
