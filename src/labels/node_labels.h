#pragma once
// Labels on the Node object itself, beside those of other clients. An annotation of the node (tranche.io/labels) lists
// Tranche's own, so that stale ones are removed and others are not changed: a key that exists and is not in the
// annotation belongs to another client. Pure; the node's JSON is not trusted, and fuzzed.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "labels/label.h"

namespace tranche::labels {

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
