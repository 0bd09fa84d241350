#pragma once
// Private to src/verify: reading documents of other processes without trusting them. A field of another type is as
// absent as one that is not there; nothing throws. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tranche::verify {

const nlohmann::json& field(const nlohmann::json& object, std::string_view key);  // null when absent
const nlohmann::json& list(const nlohmann::json& object, std::string_view key);   // an empty list when absent
const nlohmann::json& map(const nlohmann::json& object, std::string_view key);    // an empty object when absent
std::string text(const nlohmann::json& object, std::string_view key);
std::uint64_t number(const nlohmann::json& object, std::string_view key);  // 0 when absent or negative
bool truth(const nlohmann::json& object, std::string_view key);

}  // namespace tranche::verify
