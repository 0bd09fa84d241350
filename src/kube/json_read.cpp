#include "kube/json_read.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace tranche::kube {

using Json = nlohmann::json;

const Json& at(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto it = object.find(key);
  return it == object.end() ? kNull : *it;
}

const Json& list_at(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json& value = at(object, key);
  return value.is_array() ? value : kEmpty;
}

std::string text_at(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<std::int64_t> number_at(const Json& object, const char* key) {
  const Json& value = at(object, key);
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return std::nullopt;
  return value.get<std::int64_t>();
}

bool truth_at(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_boolean() && value.get<bool>();
}

Json parsed_json(std::string_view text) {
  return json_of(text);
}

}  // namespace tranche::kube
