#pragma once
// Labels in the formats of the cluster's node feature discovery: lines of a file, or a NodeFeature object
// (nfd.k8s-sigs.io/v1alpha1) with the name and labels that GPU feature discovery gives it; and on the Node object
// itself, beside those of other clients. An annotation of the node (tranche.io/labels) lists Tranche's own, so that
// stale ones are removed and others are not changed: a key that exists and is not in the annotation belongs to another
// client. Pure; input from the API server is not trusted, and fuzzed.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "labels/label.h"

namespace tranche::labels {

std::string file_text(const Labels& labels);  // "key=value" lines, by key

// Where the labels of one node go.
struct LabelTarget {
  std::string node_name;
  std::string feature_namespace = "default";  // of the NodeFeature object
  std::string pod_name = {};  // whose DaemonSet owns the NodeFeature object, which is deleted with it; "" = no owner
  std::string file = {};      // replaced atomically, through a hidden file beside it; its folder must exist
  std::string owners = "[]";  // JSON, the ownerReferences of the NodeFeature object (owners_of_pod)
};

// The DaemonSet of a pod and the pod itself; none for a pod without a DaemonSet. kInvalid: this is not a pod.
Result<std::string> owners_of_pod(std::string_view pod);

std::string features_path(const LabelTarget& place);  // of the namespace's objects
std::string feature_path(const LabelTarget& place);   // of this node's
std::string new_feature(const LabelTarget& place, const Labels& labels);

// The desired object, made from the present one, whose version and other content it preserves; absent if it is up to
// date. kInvalid: the present object is not a NodeFeature.
Result<std::optional<std::string>> changed_feature(std::string_view there, const LabelTarget& place,
                                                   const Labels& labels);

inline constexpr const char* kOwnedAnnotation = "tranche.io/labels";

struct NodeChange {
  std::optional<std::string> patch;  // a merge patch for this version of the node; absent if nothing must change
  std::vector<std::string> foreign;  // keys of `wanted` that another client has set to other values, left unchanged
};

// kInvalid: this is not a node. No labels wanted: removes Tranche's labels and the annotation.
Result<NodeChange> change_node(std::string_view node, const Labels& wanted);

// Whether Tranche may own a key. Labels that select what runs on a node (nvidia.com/gpu.deploy.…, mig.config,
// device-plugin.config, gpu.present) belong to people and operators.
bool may_own(std::string_view key);

}  // namespace tranche::labels
