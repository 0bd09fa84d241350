#include "config/choose.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::array<std::pair<const char*, std::string ChosenConfig::*>, 5> kFields{
    {{"name", &ChosenConfig::name},
     {"chosenBy", &ChosenConfig::chosen_by},
     {"label", &ChosenConfig::label},
     {"source", &ChosenConfig::source},
     {"text", &ChosenConfig::text}}};

}  // namespace

std::string render_chosen(const ChosenConfig& chosen) {
  Json document{{"format", kFormat}};
  for (const auto& [key, field] : kFields) document[key] = chosen.*field;
  // Bytes that are not UTF-8 come from a file that is refused because of them; they must not end the program here.
  return json_text(document, 2) + "\n";
}

Result<ChosenConfig> parse_chosen(std::string_view text) {
  const auto document = json_of(text);
  if (!document.is_object()) return fail(Kind::kInvalid, "is not a JSON document of the configuration in effect");
  const auto format = document.find("format");
  if (format == document.end() || !format->is_number_integer() || *format != kFormat)
    return fail(Kind::kInvalid, "is of another format than this version's");
  ChosenConfig chosen;
  for (const auto& [key, field] : kFields) {
    const auto value = document.find(key);
    if (value == document.end() || !value->is_string()) return fail(Kind::kInvalid, std::string("has no text ") + key);
    chosen.*field = value->get<std::string>();
  }
  return chosen;
}

std::string content_hash(std::string_view text) {
  return hex16(stable_hash(text));
}

}  // namespace tranche::config
