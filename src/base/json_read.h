#pragma once
// Reads JSON from another process without trusting it: a member of the wrong type counts as absent, and nothing throws.
// For documents in which every fault is reported, see the strict readers of their owners
// (gpu/inventory/inventory_json.cpp, mps/protocol/requests.cpp). json_of (json_text.h) parses the text. Pure.
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche {

// A returned reference lives as long as `object`, or indefinitely if the member is absent.
const nlohmann::json& member_at(const nlohmann::json& object, std::string_view key);  // null when absent
const nlohmann::json& list_at(const nlohmann::json& object, std::string_view key);    // an empty list when absent
const nlohmann::json& map_at(const nlohmann::json& object, std::string_view key);     // an empty object when absent

std::string text_at(const nlohmann::json& object, std::string_view key);                             // "" when absent
std::vector<std::string> texts_at(const nlohmann::json& object, std::string_view key);               // those of a list
std::map<std::string, std::string> text_map_at(const nlohmann::json& object, std::string_view key);  // of an object
std::optional<std::int64_t> number_at(const nlohmann::json& object, std::string_view key);
std::uint64_t count_at(const nlohmann::json& object, std::string_view key);  // 0 when absent or negative
bool truth_at(const nlohmann::json& object, std::string_view key);           // false when absent

// The value itself; absent if it is not a whole number or does not fit.
std::optional<std::int64_t> number_of(const nlohmann::json& value);

}  // namespace tranche
