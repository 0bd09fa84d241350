#include "labels/outputs.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::labels {
namespace {

using Json = nlohmann::json;

constexpr const char* kApiVersion = "nfd.k8s-sigs.io/v1alpha1";
constexpr const char* kNodeLabel = "nfd.node.kubernetes.io/node-name";

std::string name_of(const LabelTarget& place) {
  return "nvidia-features-for-" + place.node_name;
}

Json owner_json(const std::string& api_version, const char* kind, const Json& named) {
  return {
      {"apiVersion", api_version}, {"kind", kind}, {"name", text_at(named, "name")}, {"uid", text_at(named, "uid")}};
}

Json node_label(const LabelTarget& place) {
  return {{kNodeLabel, place.node_name}};
}

Json no_features() {
  const Json nothing = Json::object();
  return {{"attributes", nothing}, {"flags", nothing}, {"instances", nothing}};
}

std::set<std::string> owned_by(const std::map<std::string, std::string>& annotations) {
  std::set<std::string> owned;
  const auto listed = annotations.find(kOwnedAnnotation);
  if (listed == annotations.end()) return owned;
  for (const auto key : split(listed->second, ','))
    if (may_own(key)) owned.insert(std::string(key));
  return owned;
}

}  // namespace

std::string file_text(const Labels& labels) {
  std::string text;
  for (const auto& [key, value] : labels) text += key + "=" + value + "\n";
  return text;
}

Result<std::string> owners_of_pod(std::string_view pod) {
  const Json json = json_of(pod);
  const Json& metadata = member_at(json, "metadata");
  if (text_at(metadata, "name").empty() || text_at(metadata, "uid").empty())
    return fail(Kind::kInvalid, "the API server's answer is no pod");
  for (const Json& owner : list_at(metadata, "ownerReferences")) {
    if (text_at(owner, "kind") != "DaemonSet") continue;
    Json owners =
        Json::array({owner_json(text_at(owner, "apiVersion"), "DaemonSet", owner), owner_json("v1", "Pod", metadata)});
    owners[0]["controller"] = true;
    return json_text(owners);
  }
  return json_text(Json::array());
}

std::string features_path(const LabelTarget& place) {
  return std::string("/apis/") + kApiVersion + "/namespaces/" + place.feature_namespace + "/nodefeatures";
}

std::string feature_path(const LabelTarget& place) {
  return features_path(place) + "/" + name_of(place);
}

std::string new_feature(const LabelTarget& place, const Labels& labels) {
  Json metadata{{"name", name_of(place)}, {"namespace", place.feature_namespace}, {"labels", node_label(place)}};
  if (Json owners = json_of(place.owners); !owners.empty()) metadata["ownerReferences"] = std::move(owners);
  return json_text(Json{{"apiVersion", kApiVersion},
                        {"kind", "NodeFeature"},
                        {"metadata", std::move(metadata)},
                        {"spec", {{"features", no_features()}, {"labels", labels}}}});
}

Result<std::optional<std::string>> changed_feature(std::string_view there, const LabelTarget& place,
                                                   const Labels& labels) {
  Json json = json_of(there);
  if (!member_at(json, "metadata").is_object() || text_at(json, "kind") != "NodeFeature")
    return fail(Kind::kInvalid, "the API server's answer is not a NodeFeature object");
  bool changed = false;
  const auto put = [&](Json& into, const char* key, const Json& value) {
    const Json& now = member_at(into, key);
    if (now == value || (now.is_null() && value.empty())) return;
    into[key] = value;
    changed = true;
  };
  put(json["metadata"], "labels", node_label(place));
  put(json["metadata"], "ownerReferences", json_of(place.owners));
  if (!member_at(json, "spec").is_object()) json["spec"] = {{"features", no_features()}};
  put(json["spec"], "labels", labels);
  return changed ? std::optional(json_text(json)) : std::nullopt;
}

bool may_own(std::string_view key) {
  constexpr std::array<std::string_view, 4> kOthers{"nvidia.com/gpu.deploy.", "nvidia.com/mig.config",
                                                    "nvidia.com/device-plugin.config", "nvidia.com/gpu.present"};
  if (!legal_key(key) || !(key.starts_with("nvidia.com/") || key.starts_with("tranche.io/"))) return false;
  return std::ranges::none_of(kOthers, [&](std::string_view other) { return key.starts_with(other); });
}

Result<NodeChange> change_node(std::string_view node, const Labels& wanted) {
  const Json json = json_of(node);
  const Json& metadata = member_at(json, "metadata");
  if (!metadata.is_object()) return fail(Kind::kInvalid, "the API server's answer is not a node");
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
