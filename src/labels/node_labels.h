#pragma once
// Labels written on the Node object itself, beside those of everybody else. Which of them are ours stands in an
// annotation of the node (tranche.io/labels), so that stale ones go and nobody else's is touched: a key that is there
// and not in the annotation is somebody's. Pure; the node's JSON is not trusted, and fuzzed.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "labels/label.h"

namespace tranche::label {

inline constexpr const char* kOwnedAnnotation = "tranche.io/labels";

struct NodeChange {
  std::optional<std::string> patch;  // a merge patch for this version of the node; nothing when all is as it should be
  std::vector<std::string> foreign;  // keys of `wanted` that somebody else has set otherwise: left alone
};

// kInvalid: this is no node. No labels wanted: ours are removed, the annotation as well.
Result<NodeChange> change_node(std::string_view node, const Labels& wanted);

// Whether a key may be ours at all. Those that choose what runs on a node (nvidia.com/gpu.deploy.…, mig.config,
// device-plugin.config, gpu.present) belong to people and operators.
bool may_own(std::string_view key);

}  // namespace tranche::label
