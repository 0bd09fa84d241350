#include "kube/node_condition.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/utf8.h"
#include "kube/event_json.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

std::string node_path(std::string_view name) {
  return "/api/v1/nodes/" + std::string(name);
}

std::string node_status_path(std::string_view name) {
  return node_path(name) + "/status";
}

std::string condition_patch(const NodeCondition& condition, WallTime changed, WallTime now) {
  const Json entry{{"type", condition.type},
                   {"status", condition.ready ? "True" : "False"},
                   {"reason", condition.reason},
                   {"message", cut_text(condition.message, kLongestMessage)},
                   {"lastTransitionTime", utc_seconds(changed)},
                   {"lastHeartbeatTime", utc_seconds(now)}};
  return json_text(Json{{"status", {{"conditions", Json::array({entry})}}}});
}

Result<std::optional<std::string>> patch_without_taint(std::string_view node_json, std::string_view key) {
  const Json node = json_of(node_json);
  const Json* metadata = member(node, "metadata");
  const Json* version = metadata == nullptr ? nullptr : member(*metadata, "resourceVersion");
  if (version == nullptr || !version->is_string())
    return fail(Kind::kInvalid, "the API server answered with something that is no Node");
  const Json* spec = member(node, "spec");
  const Json* taints = spec == nullptr ? nullptr : member(*spec, "taints");
  if (taints == nullptr || !taints->is_array()) return std::nullopt;
  Json rest = Json::array();
  for (const Json& taint : *taints) {
    const Json* name = member(taint, "key");
    if (name == nullptr || !name->is_string() || name->get_ref<const std::string&>() != key) rest.push_back(taint);
  }
  if (rest.size() == taints->size()) return std::nullopt;
  return json_text(Json{{"metadata", {{"resourceVersion", *version}}}, {"spec", {{"taints", std::move(rest)}}}});
}

}  // namespace tranche::kube
