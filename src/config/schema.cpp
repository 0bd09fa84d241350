#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "config/keys.h"
#include "config/reference.h"

namespace tranche::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSizePattern = "^[0-9]+(\\.[0-9]+)?(Mi|Gi|Ti|M|G|T)$";

Json mapping_below(const std::string& path);

Json enum_of(const Key& key) {
  Json words = Json::array();
  for (const auto word : key.words) words.push_back(word);
  // In YAML 1.1, unquoted off is the boolean false.
  if (std::ranges::find(key.words, "off") != key.words.end()) words.push_back(false);
  return {{"enum", words}};
}

Json any_of(std::initializer_list<Json> choices) {
  Json list = Json::array();
  for (const Json& choice : choices) list.push_back(choice);
  return {{"anyOf", list}};
}

Json text() {
  return {{"type", "string"}};
}

Json text_like(const char* pattern) {
  return {{"type", "string"}, {"pattern", pattern}};
}

Json device() {
  return {{"type", Json::array({"string", "integer"})}};
}

Json list_of(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

Json schema_of(const Key& key) {
  const std::string path(key.path);
  switch (key.type) {
    case KeyType::kSection:
      return mapping_below(path);
    case KeyType::kSections:
      return list_of(mapping_below(path + "[]"));
    case KeyType::kSwitch:
      return {{"type", "boolean"}};
    case KeyType::kText:
      return key.origin == Origin::kUnused ? Json::object() : text();
    case KeyType::kPath:
    case KeyType::kResource:
      return text();
    case KeyType::kWord:
      return enum_of(key);
    case KeyType::kWords:
      return any_of({enum_of(key), list_of(enum_of(key))});
    case KeyType::kCount:
      return {{"type", "integer"}, {"minimum", key.least}, {"maximum", key.most}};
    case KeyType::kFactor:
      return {{"type", "number"}, {"minimum", 0.01}, {"maximum", 100}};
    case KeyType::kDuration:
      return {{"type", Json::array({"string", "integer"})}};
    case KeyType::kProof:
      return any_of({{{"const", 0}}, text()});
    case KeyType::kSize:
      return text_like(kSizePattern);
    case KeyType::kReserve:
      return any_of({enum_of(key), text_like(kSizePattern)});
    case KeyType::kThreads:
      return any_of({enum_of(key), mapping_below(path)});
    case KeyType::kMemory:
      return any_of({enum_of(key), text_like(kSizePattern), mapping_below(path)});
    case KeyType::kNames:
      return text_like("%[dgm]");
    case KeyType::kDevices:
      return any_of({{{"const", "all"}}, {{"type", "integer"}, {"minimum", 1}}, list_of(device())});
    case KeyType::kGpus:
      return list_of(device());
    case KeyType::kSomeGpus: {
      Json some = list_of(device());
      some["minItems"] = 1;
      return any_of({enum_of(key), std::move(some)});
    }
    case KeyType::kIndex:
      return {{"type", "integer"}, {"minimum", 0}};
    case KeyType::kDriver: {
      Json name = text_like(R"(^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$)");
      name["maxLength"] = kLongestDriverName;
      return name;
    }
    case KeyType::kChannels:
      return {{"type", "array"}, {"items", {{"const", 0}}}, {"maxItems", 1}};
  }
  return Json::object();
}

Json mapping_below(const std::string& path) {
  Json properties = Json::object();
  const std::string start = path.empty() ? "" : path + ".";
  for (const auto name : names_below(path)) {
    const auto key = std::ranges::find(keys(), std::string_view(start + std::string(name)), &Key::path);
    if (key == keys().end()) continue;
    Json property = schema_of(*key);
    property["description"] = key->meaning;
    if (key->origin == Origin::kUnused) property["deprecated"] = true;
    properties[std::string(name)] = std::move(property);
  }
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

}  // namespace

std::string schema_json() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "Configuration of Tranche and of NVIDIA's device plugin (version: v1)"}};
  schema.update(mapping_below(""));
  return json_text(schema, 2) + "\n";
}

}  // namespace tranche::config
