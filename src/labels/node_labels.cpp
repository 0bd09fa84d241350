#include "labels/node_labels.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::labels {
namespace {

using Json = nlohmann::json;

std::set<std::string> owned_by(const std::map<std::string, std::string>& annotations) {
  std::set<std::string> owned;
  const auto listed = annotations.find(kOwnedAnnotation);
  if (listed == annotations.end()) return owned;
  for (const auto key : split(listed->second, ','))
    if (may_own(key)) owned.insert(std::string(key));
  return owned;
}

}  // namespace

bool may_own(std::string_view key) {
  constexpr std::array<std::string_view, 4> kOthers{"nvidia.com/gpu.deploy.", "nvidia.com/mig.config",
                                                    "nvidia.com/device-plugin.config", "nvidia.com/gpu.present"};
  if (!legal_key(key) || !(key.starts_with("nvidia.com/") || key.starts_with("tranche.io/"))) return false;
  return std::ranges::none_of(kOthers, [&](std::string_view other) { return key.starts_with(other); });
}

Result<NodeChange> change_node(std::string_view node, const Labels& wanted) {
  const Json json = json_of(node);
  const Json& metadata = member_at(json, "metadata");
  if (!metadata.is_object()) return fail(Kind::kInvalid, "the API server's answer is no node");
  const auto there = text_map_at(metadata, "labels");
  const auto annotations = text_map_at(metadata, "annotations");
  const std::set<std::string> owned = owned_by(annotations);

  NodeChange change;
  Json labels = Json::object();
  std::vector<std::string> ours;
  for (const auto& [key, value] : wanted) {
    if (!may_own(key)) continue;
    const auto now = there.find(key);
    if (now != there.end() && !owned.contains(key)) {
      if (now->second != value) change.foreign.push_back(key);
      continue;
    }
    ours.push_back(key);
    if (now == there.end() || now->second != value) labels[key] = value;
  }
  for (const auto& key : owned)
    if (there.contains(key) && !wanted.contains(key)) labels[key] = nullptr;

  const std::string list = join(ours, ",");
  const auto listed = annotations.find(kOwnedAnnotation);
  const bool same_list = listed == annotations.end() ? list.empty() : listed->second == list && !list.empty();
  if (labels.empty() && same_list) return change;
  Json patch{{"metadata", Json::object()}};
  if (!labels.empty()) patch["metadata"]["labels"] = std::move(labels);
  if (!same_list) patch["metadata"]["annotations"][kOwnedAnnotation] = list.empty() ? Json() : Json(list);
  // The version that this was made from: if another client has changed the node since, the write fails and is repeated.
  const auto version = text_at(metadata, "resourceVersion");
  if (!version.empty()) patch["metadata"]["resourceVersion"] = version;
  change.patch = json_text(patch);
  return change;
}

}  // namespace tranche::labels
