#include "base/json_text.h"

#include <nlohmann/json.hpp>

namespace tranche {
namespace {

template <class Json>
std::string text_of(const Json& value, int indent, bool ascii = false) {
  return value.dump(indent, ' ', ascii, Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json json_of(std::string_view text) {
  constexpr int kDeepest = 100;
  using Json = nlohmann::json;
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; };
  return Json::parse(text, keep, /*allow_exceptions=*/false);
}

std::string json_text(const nlohmann::json& value, int indent) {
  return text_of(value, indent);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return text_of(value, indent);
}

std::string json_in_ascii(const nlohmann::json& value) {
  return text_of(value, -1, true);
}

std::string json_in_ascii(const nlohmann::ordered_json& value) {
  return text_of(value, -1, true);
}

}  // namespace tranche
