#pragma once
// Labels as the node feature discovery of the cluster reads them: lines of a file, or a NodeFeature object
// (nfd.k8s-sigs.io/v1alpha1) with the name and labels that GPU feature discovery gives it. Pure; what the API server
// sends is not trusted, and fuzzed.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "labels/label.h"

namespace tranche::label {

std::string file_text(const Labels& labels);  // "key=value" lines, by key

// Whom the object belongs to: it goes when they go.
struct FeatureOwner {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  friend bool operator==(const FeatureOwner&, const FeatureOwner&) = default;
};

struct FeaturePlace {
  std::string node;
  std::string feature_namespace;
  std::vector<FeatureOwner> owners{};
};

// The DaemonSet of a pod and the pod itself; none for a pod that no DaemonSet made. kInvalid: this is no pod.
Result<std::vector<FeatureOwner>> owners_of_pod(std::string_view pod);

std::string features_path(const FeaturePlace& place);  // of the namespace's objects
std::string feature_path(const FeaturePlace& place);   // of this node's
std::string new_feature(const FeaturePlace& place, const Labels& labels);

// The object as it should be, made from the one that is there so that its version and what others wrote into it stay;
// nothing when it is right already. kInvalid: what is there is no NodeFeature object.
Result<std::optional<std::string>> changed_feature(std::string_view there, const FeaturePlace& place,
                                                   const Labels& labels);

}  // namespace tranche::label
