#pragma once
// Private to src/kube: reading what an API server sends without trusting it. A field of another type is as absent as
// one that is not there; nothing throws. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tranche::kube {

const nlohmann::json& at(const nlohmann::json& object, const char* key);       // null when absent
const nlohmann::json& list_at(const nlohmann::json& object, const char* key);  // an empty list when absent
std::string text_at(const nlohmann::json& object, const char* key);
std::optional<std::int64_t> number_at(const nlohmann::json& object, const char* key);
bool truth_at(const nlohmann::json& object, const char* key);

nlohmann::json parsed_json(std::string_view text);  // discarded when it is no JSON

}  // namespace tranche::kube
