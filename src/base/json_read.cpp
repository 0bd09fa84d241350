#include "base/json_read.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace tranche {

using Json = nlohmann::json;

const Json& member_at(const Json& object, std::string_view key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNull : *found;
}

const Json& list_at(const Json& object, std::string_view key) {
  static const Json kEmpty = Json::array();
  const Json& value = member_at(object, key);
  return value.is_array() ? value : kEmpty;
}

const Json& map_at(const Json& object, std::string_view key) {
  static const Json kEmpty = Json::object();
  const Json& value = member_at(object, key);
  return value.is_object() ? value : kEmpty;
}

std::string text_at(const Json& object, std::string_view key) {
  const Json& value = member_at(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::vector<std::string> texts_at(const Json& object, std::string_view key) {
  std::vector<std::string> texts;
  for (const Json& each : list_at(object, key))
    if (each.is_string()) texts.push_back(each.get<std::string>());
  return texts;
}

std::map<std::string, std::string> text_map_at(const Json& object, std::string_view key) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : map_at(object, key).items())
    if (value.is_string()) texts.emplace(name, value.get<std::string>());
  return texts;
}

std::optional<std::int64_t> number_of(const Json& value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMost) return std::nullopt;
  return value.get<std::int64_t>();
}

std::optional<std::int64_t> number_at(const Json& object, std::string_view key) {
  return number_of(member_at(object, key));
}

std::uint64_t count_at(const Json& object, std::string_view key) {
  const Json& value = member_at(object, key);
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_of(value).value_or(0)));
}

bool truth_at(const Json& object, std::string_view key) {
  const Json& value = member_at(object, key);
  return value.is_boolean() && value.get<bool>();
}

}  // namespace tranche
