#include "base/json_text.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace tranche {

using Json = nlohmann::json;

namespace {

template <class AnyJson>
std::string text_of(const AnyJson& value, int indent, bool ascii = false) {
  return value.dump(indent, ' ', ascii, AnyJson::error_handler_t::replace);
}

// Whether more brackets are open at once, outside strings, than in any document of ours or of Kubernetes.
bool is_deep(std::string_view text) {
  constexpr std::size_t kDeepest = 100;
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > kDeepest) return true;
    } else if (!in_string && (c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json json_of(std::string_view text) {
  if (is_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Json json_of_list(std::string_view text, std::string_view key, const std::function<void(const Json&)>& element) {
  using Event = Json::parse_event_t;
  if (is_deep(text)) return Json(Json::value_t::discarded);
  std::string last_key;
  bool inside = false;
  const auto keep = [&](int depth, Event event, Json& parsed) {
    if (depth == 1 && event == Event::key) last_key = parsed.get<std::string>();
    if (depth == 1 && event == Event::array_start) inside = last_key == key;
    if (depth == 1 && event == Event::array_end) inside = false;
    const bool complete = event == Event::object_end || event == Event::array_end || event == Event::value;
    if (!inside || depth != 2 || !complete) return true;
    element(parsed);
    return false;
  };
  return Json::parse(text, keep, /*allow_exceptions=*/false);
}

std::string json_text(const Json& value, int indent) {
  return text_of(value, indent);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return text_of(value, indent);
}

std::string json_in_ascii(const nlohmann::ordered_json& value) {
  return text_of(value, -1, true);
}

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

const Json& entry_at(const Json& object, std::string_view key, std::string_view name, std::string_view value) {
  static const Json kNull;
  const Json& list = list_at(object, key);
  const auto found = std::ranges::find_if(list, [&](const Json& each) { return text_at(each, name) == value; });
  return found == list.end() ? kNull : *found;
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
