#include "kube/node_condition.h"

#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "kube/event_queue.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;

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
  const std::string version = text_at(map_at(node, "metadata"), "resourceVersion");
  if (version.empty()) return fail(Kind::kInvalid, "the API server answered with something that is not a Node");
  const Json& taints = list_at(map_at(node, "spec"), "taints");
  Json rest = Json::array();
  for (const Json& taint : taints)
    if (text_at(taint, "key") != key) rest.push_back(taint);
  if (rest.size() == taints.size()) return std::nullopt;
  return json_text(Json{{"metadata", {{"resourceVersion", version}}}, {"spec", {{"taints", std::move(rest)}}}});
}

}  // namespace tranche::kube
