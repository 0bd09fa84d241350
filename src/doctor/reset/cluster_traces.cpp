// What the node agent wrote into its Node: labels, the annotation that lists them, the condition.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "doctor/reset/traces.h"
#include "kube/api_status.h"
#include "kube/client/ask_once.h"
#include "kube/client/find_access.h"
#include "kube/node_condition.h"
#include "kube/url.h"
#include "labels/outputs.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

constexpr int kMostRounds = 5;

Result<std::string> node_object(const kube::Access& access, const std::string& path) {
  TRY(const auto answer, kube::get_once(access, path));
  if (answer.status == kube::http::kOk) return answer.body;
  return fail(Kind::kDenied,
              fmt::format("the API server does not show it: {} ({})", kube::why_not(answer), answer.status), path);
}

Status refused(const kube::KubeAnswer& answer, const std::string& what) {
  return fail(Kind::kDenied,
              fmt::format("the API server refuses to {}: {} ({})", what, kube::why_not(answer), answer.status));
}

// Whoever writes in between makes us look again.
Status remove_labels(const kube::Access& access, const std::string& path) {
  for (int round = 0; round < kMostRounds; ++round) {
    TRY(const auto node, node_object(access, path));
    TRY(const auto change, labels::change_node(node, {}));
    if (!change.patch) return {};
    TRY(const auto answer, kube::write_once(access, &kube::KubeClient::patch, path, *change.patch));
    if (answer.status == kube::http::kOk) return {};
    if (answer.status != kube::http::kConflict) return refused(answer, "take labels off the node");
  }
  return fail(Kind::kConflict, "the node object is changed by another client at each try", path);
}

bool has_condition(const std::string& node) {
  const Json object = json_of(node);
  return std::ranges::any_of(list_at(member_at(object, "status"), "conditions"),
                             [](const Json& each) { return text_at(each, "type") == kube::kReadyCondition; });
}

// A strategic merge patch that deletes one entry of the list by its type.
Status remove_condition(const kube::Access& access, const std::string& path) {
  const Json entry{{"type", kube::kReadyCondition}, {"$patch", "delete"}};
  const Json patch{{"status", {{"conditions", Json::array({entry})}}}};
  TRY(const auto answer, kube::write_once(access, &kube::KubeClient::strategic_patch, path, json_text(patch)));
  return answer.status == kube::http::kOk ? Status{} : refused(answer, "take the condition off the node");
}

}  // namespace

void find_on_node_object(const ResetOptions& options, Traces& traces, std::vector<std::string>& problems) {
  if (options.node_name.empty()) return;
  const auto leave = [&](const Error& why) {
    problems.push_back("the labels of the node " + options.node_name + " are left: " + to_string(why));
  };
  const auto access = kube::PersonsAccess({options.kubeconfig, ""}, options.mps.environment).get();
  if (!access) return leave(access.error());
  const std::string name = kube::percent_encoded(options.node_name);
  const std::string path = kube::node_path(name);
  const auto node = node_object(*access, path);
  if (!node) return leave(node.error());
  const auto change = labels::change_node(*node, {});
  const auto text = change ? change->patch : std::nullopt;
  if (text) {
    std::string keys;
    const Json patch = json_of(*text);
    for (const auto& [key, value] : map_at(member_at(patch, "metadata"), "labels").items())
      keys += (keys.empty() ? "" : ", ") + key;
    traces.push_back({"the labels of the node " + options.node_name + " that are ours (" + keys + ")",
                      [access = *access, path] { return remove_labels(access, path); }});
  }
  if (has_condition(*node))
    traces.push_back({"the condition " + std::string(kube::kReadyCondition) + " of the node " + options.node_name,
                      [access = *access, name] { return remove_condition(access, kube::node_status_path(name)); }});
}

}  // namespace tranche::doctor
