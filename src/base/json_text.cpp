#include "base/json_text.h"

#include <nlohmann/json.hpp>

namespace tranche {
namespace {

template <class Json>
std::string text_of(const Json& value, int indent, bool ascii = false) {
  return value.dump(indent, ' ', ascii, Json::error_handler_t::replace);
}

}  // namespace

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
