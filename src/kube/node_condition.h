#pragma once
// Requests with which the node agent changes its Node: conditions of its own, and the removal of one startup taint.
// Builds the texts and sends nothing. Pure; responses of an API server are not trusted, fuzzed.
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace tranche::kube {

inline constexpr std::string_view kReadyCondition = "TrancheReady";
inline constexpr std::string_view kMigCondition = "TrancheMigReady";
inline constexpr std::string_view kDraCondition = "TrancheDraReady";

struct NodeCondition {
  bool ready = false;
  std::string reason;   // one word: "Serving", "NoDriver"
  std::string message;  // a sentence
  std::string type = std::string(kReadyCondition);
  friend bool operator==(const NodeCondition&, const NodeCondition&) = default;
};

std::string node_path(std::string_view name);         // "/api/v1/nodes/…"
std::string node_status_path(std::string_view name);  // "/api/v1/nodes/…/status"

// A strategic merge patch of the status, which preserves all other conditions because the list is merged by type.
// `changed`: since when the condition has its value.
std::string condition_patch(const NodeCondition& condition, WallTime changed, WallTime now);

// A merge patch that removes one taint from the node that was read, and fails if the node has changed since; absent if
// the node does not have the taint.
Result<std::optional<std::string>> patch_without_taint(std::string_view node_json, std::string_view key);

}  // namespace tranche::kube
