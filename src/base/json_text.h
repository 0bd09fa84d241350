#pragma once
// The one way to make text of a JSON value, and to read JSON that another process sent. Strings may hold any bytes (a
// configuration, a driver, a proxy's page): what is not UTF-8 becomes U+FFFD instead of an exception. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tranche {

// On one line, or with `indent` blanks a level. No line end behind it.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);
std::string json_in_ascii(const nlohmann::json& value);  // on one line; characters beyond ASCII become \u escapes
std::string json_in_ascii(const nlohmann::ordered_json& value);

// Discarded when it is no JSON, or is deeper than 100 levels: copies and texts of a value recurse, and an answer of 16
// MiB could have 16 million levels. Nothing throws.
nlohmann::json json_of(std::string_view text);

}  // namespace tranche
