#include "kube/object.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "config/names.h"
#include "kube/event_queue.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLongestRetrySeconds = 300;
constexpr std::size_t kLongestReason = 400;

}  // namespace

ApiStatus read_status(const Json& object) {
  ApiStatus status;
  status.code = static_cast<int>(std::clamp<std::int64_t>(number_at(object, "code").value_or(0), 0, 999));
  status.message = cut_text(text_at(object, "message"), kLongestReason);
  const auto wait = number_at(member_at(object, "details"), "retryAfterSeconds").value_or(0);
  status.retry_after = std::chrono::seconds(std::clamp<std::int64_t>(wait, 0, kLongestRetrySeconds));
  return status;
}

ApiStatus status_of_body(int http_status, std::string_view body) {
  const auto document = json_of(body);
  ApiStatus status;
  if (text_at(document, "kind") == "Status") status = read_status(document);
  status.code = http_status;
  if (status.message.empty() && !trimmed(body).empty()) status.message = in_quotes(trimmed(body));
  return status;
}

std::string name_of(const Json& object) {
  return text_at(member_at(object, "metadata"), "name");
}

Result<ListHead> parse_list(std::string_view body, const std::function<void(const Json&)>& item) {
  const Json document = json_of_list(body, "items", item);
  const Json& items = member_at(document, "items");
  // An empty list may have "items": null.
  if (!document.is_object() || !(items.is_array() || (items.is_null() && text_at(document, "kind").ends_with("List"))))
    return fail(Kind::kInvalid, "the API server answered with something that is no list: " + in_quotes(body));
  const Json& metadata = member_at(document, "metadata");
  ListHead head{text_at(metadata, "resourceVersion"), text_at(metadata, "continue")};
  if (head.resource_version.empty())
    return fail(Kind::kInvalid, "the API server answered with a list that has no metadata.resourceVersion");
  return head;
}

Texts labels_of(const Json& object) {
  return text_map_at(member_at(object, "metadata"), "labels");
}

Texts data_of_config_map(const Json& object) {
  return text_map_at(object, "data");
}

Result<ObjectName> parse_object_name(std::string_view text) {
  const auto slash = text.find('/');
  if (slash != std::string_view::npos) {
    ObjectName found{std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
    const bool label = found.in_namespace.find('.') == std::string::npos;
    if (label && config::is_subdomain(found.in_namespace) && config::is_subdomain(found.name)) return found;
  }
  return fail(Kind::kInvalid, in_quotes(text) + " is no NAMESPACE/NAME; write for example gpu-operator/gpu-configs");
}

std::expected<std::string, ApiStatus> parse_watch_line(std::string_view line,
                                                       const std::function<void(Change, const Json&)>& object) {
  const auto not_understood = [](std::string what) {
    return std::unexpected(ApiStatus{http::kGone, "a watch " + std::move(what), {}});
  };
  const auto document = json_of(line);
  if (!document.is_object()) return not_understood("sent something that is not a JSON object: " + in_quotes(line));
  const std::string type = text_at(document, "type");
  const auto change = enum_of<Change>(type);
  if (!change) return not_understood("brought an event of an unknown type: " + in_quotes(type));
  const auto& held = member_at(document, "object");
  if (!held.is_object()) return not_understood("brought an event without an object: " + type);
  if (change == Change::kError) return std::unexpected(read_status(held));
  auto version = text_at(member_at(held, "metadata"), "resourceVersion");
  if (version.empty()) return not_understood("brought an object without a resourceVersion: " + type);
  if (change != Change::kBookmark) object(*change, held);
  return version;
}

std::string node_path(std::string_view name) {
  return "/api/v1/nodes/" + std::string(name);
}

std::string node_status_path(std::string_view name) {
  return node_path(name) + "/status";
}

Json condition_json(std::string_view type, bool holds, std::string_view reason, std::string_view message) {
  return {{"type", type},
          {"status", holds ? "True" : "False"},
          {"reason", reason},
          {"message", cut_text(message, kLongestMessage)}};
}

std::string condition_patch(const NodeCondition& condition, WallTime changed, WallTime now) {
  Json entry = condition_json(condition.type, condition.ready, condition.reason, condition.message);
  entry["lastTransitionTime"] = utc_seconds(changed);
  entry["lastHeartbeatTime"] = utc_seconds(now);
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
