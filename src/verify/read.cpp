#include "verify/read.h"

#include <nlohmann/json.hpp>

namespace tranche::verify {

using Json = nlohmann::json;

const Json& field(const Json& object, std::string_view key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNull : *found;
}

const Json& list(const Json& object, std::string_view key) {
  static const Json kEmpty = Json::array();
  const Json& value = field(object, key);
  return value.is_array() ? value : kEmpty;
}

const Json& map(const Json& object, std::string_view key) {
  static const Json kEmpty = Json::object();
  const Json& value = field(object, key);
  return value.is_object() ? value : kEmpty;
}

std::string text(const Json& object, std::string_view key) {
  const Json& value = field(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::uint64_t number(const Json& object, std::string_view key) {
  const Json& value = field(object, key);
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_number_integer()) return 0;
  const auto signed_value = value.get<std::int64_t>();
  return signed_value < 0 ? 0 : static_cast<std::uint64_t>(signed_value);
}

bool truth(const Json& object, std::string_view key) {
  const Json& value = field(object, key);
  return value.is_boolean() && value.get<bool>();
}

}  // namespace tranche::verify
