#include "base/json_text.h"

#include <nlohmann/json.hpp>

namespace tranche {
namespace {

template <class Json>
std::string text_of(const Json& value, int indent, bool ascii = false) {
  return value.dump(indent, ' ', ascii, Json::error_handler_t::replace);
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

nlohmann::json json_of(std::string_view text) {
  if (is_deep(text)) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

nlohmann::json json_of_list(std::string_view text, std::string_view key,
                            const std::function<void(const nlohmann::json&)>& element) {
  using Event = nlohmann::json::parse_event_t;
  if (is_deep(text)) return nlohmann::json(nlohmann::json::value_t::discarded);
  std::string last_key;
  bool inside = false;
  const auto keep = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth == 1 && event == Event::key) last_key = parsed.get<std::string>();
    if (depth == 1 && event == Event::array_start) inside = last_key == key;
    if (depth == 1 && event == Event::array_end) inside = false;
    const bool complete = event == Event::object_end || event == Event::array_end || event == Event::value;
    if (!inside || depth != 2 || !complete) return true;
    element(parsed);
    return false;
  };
  return nlohmann::json::parse(text, keep, /*allow_exceptions=*/false);
}

std::string json_text(const nlohmann::json& value, int indent) {
  return text_of(value, indent);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return text_of(value, indent);
}

std::string json_in_ascii(const nlohmann::ordered_json& value) {
  return text_of(value, -1, true);
}

}  // namespace tranche
