#pragma once
// Objects of any kind, as far as their conventions go, and the little that is wanted of a node and a ConfigMap. Pure;
// fuzzed.
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::kube {

std::string name_of(const nlohmann::json& object);  // "" when it has none

struct ListHead {
  std::string resource_version;
  std::string next;  // the token for the next page, "" on the last
};
// `item` gets each object as it is read; what it refuses is refused. kInvalid: no list, and what `item` got is void.
Result<ListHead> parse_list(std::string_view body, const std::function<Status(const nlohmann::json& object)>& item);

using Texts = std::map<std::string, std::string>;
// Entries that are no text are left out.
Texts labels_of(const nlohmann::json& object);
Texts data_of_config_map(const nlohmann::json& object);  // "data"; what is in "binaryData" is no text

// "namespace/name" of a ConfigMap, each a legal name there.
struct ObjectName {
  std::string in_namespace;
  std::string name;
  friend bool operator==(const ObjectName&, const ObjectName&) = default;
};
Result<ObjectName> parse_object_name(std::string_view text);

}  // namespace tranche::kube
