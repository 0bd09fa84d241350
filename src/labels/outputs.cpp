#include "labels/outputs.h"

#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"

namespace tranche::labels {
namespace {

using Json = nlohmann::json;

constexpr const char* kApiVersion = "nfd.k8s-sigs.io/v1alpha1";
constexpr const char* kNodeLabel = "nfd.node.kubernetes.io/node-name";

std::string name_of(const FeaturePlace& place) {
  return "nvidia-features-for-" + place.node;
}

Json owner_json(const std::string& api_version, const char* kind, const Json& named) {
  return {
      {"apiVersion", api_version}, {"kind", kind}, {"name", text_at(named, "name")}, {"uid", text_at(named, "uid")}};
}

Json node_label(const FeaturePlace& place) {
  return {{kNodeLabel, place.node}};
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

std::string features_path(const FeaturePlace& place) {
  return std::string("/apis/") + kApiVersion + "/namespaces/" + place.feature_namespace + "/nodefeatures";
}

std::string feature_path(const FeaturePlace& place) {
  return features_path(place) + "/" + name_of(place);
}

std::string new_feature(const FeaturePlace& place, const Labels& labels) {
  Json metadata{{"name", name_of(place)}, {"namespace", place.feature_namespace}, {"labels", node_label(place)}};
  if (Json owners = json_of(place.owners); !owners.empty()) metadata["ownerReferences"] = std::move(owners);
  const Json nothing = Json::object();
  return json_text(Json{
      {"apiVersion", kApiVersion},
      {"kind", "NodeFeature"},
      {"metadata", std::move(metadata)},
      {"spec",
       {{"features", {{"attributes", nothing}, {"flags", nothing}, {"instances", nothing}}}, {"labels", labels}}}});
}

Result<std::optional<std::string>> changed_feature(std::string_view there, const FeaturePlace& place,
                                                   const Labels& labels) {
  Json json = json_of(there);
  const Json wanted = json_of(new_feature(place, labels));
  if (!member_at(json, "metadata").is_object() || text_at(json, "kind") != "NodeFeature")
    return fail(Kind::kInvalid, "the API server's answer is no NodeFeature object");
  const Json& metadata = member_at(json, "metadata");
  const Json& owners = member_at(metadata, "ownerReferences");
  const Json wanted_owners = json_of(place.owners);
  const bool same_owners = owners == wanted_owners || (owners.is_null() && wanted_owners.empty());
  const Json& labels_there = member_at(member_at(json, "spec"), "labels");
  const bool same_labels = labels_there == Json(labels) || (labels_there.is_null() && labels.empty());
  if (same_owners && same_labels && member_at(metadata, "labels") == node_label(place)) return std::nullopt;
  json["metadata"]["labels"] = node_label(place);
  json["metadata"]["ownerReferences"] = wanted_owners;
  if (!member_at(json, "spec").is_object()) json["spec"] = wanted["spec"];
  json["spec"]["labels"] = labels;
  return json_text(json);
}

}  // namespace tranche::labels
