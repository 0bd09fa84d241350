#pragma once
// The only place that turns a JSON value into text, and that parses and reads JSON from other processes. Strings may
// hold any bytes (a configuration, a driver, a proxy's page): bytes that are not UTF-8 become U+FFFD instead of an
// exception. Pure.
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// Members of a JSON value from another process, which is not trusted: a member of the wrong type counts as absent, and
// nothing throws. For documents in which every fault is reported, see the strict readers of their owners
// (gpu/inventory/inventory_json.cpp, mps/protocol/requests.cpp).

// A returned reference lives as long as `object`, or indefinitely if the member is absent.
const nlohmann::json& member_at(const nlohmann::json& object, std::string_view key);  // null when absent
const nlohmann::json& list_at(const nlohmann::json& object, std::string_view key);    // an empty list when absent
const nlohmann::json& map_at(const nlohmann::json& object, std::string_view key);     // an empty object when absent
// The first object of the list at `key` whose text at `name` is `value`; null when there is none.
const nlohmann::json& entry_at(const nlohmann::json& object, std::string_view key, std::string_view name,
                               std::string_view value);

std::string text_at(const nlohmann::json& object, std::string_view key);                             // "" when absent
std::vector<std::string> texts_at(const nlohmann::json& object, std::string_view key);               // those of a list
std::map<std::string, std::string> text_map_at(const nlohmann::json& object, std::string_view key);  // of an object
std::optional<std::int64_t> number_at(const nlohmann::json& object, std::string_view key);
std::uint64_t count_at(const nlohmann::json& object, std::string_view key);  // 0 when absent or negative
bool truth_at(const nlohmann::json& object, std::string_view key);           // false when absent

// The value itself; absent if it is not a whole number or does not fit.
std::optional<std::int64_t> number_of(const nlohmann::json& value);

}  // namespace tranche
