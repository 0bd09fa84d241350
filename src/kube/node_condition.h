#pragma once
// What this node agent writes into its Node: conditions of its own, and the removal of one startup taint. Texts of
// requests; nothing is asked here. Pure; what an API server answers is read without trust, fuzzed.
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

// A strategic merge patch of the status, which leaves all other conditions alone: the list is merged by type.
// `changed`: since when the condition is what it is.
std::string condition_patch(const NodeCondition& condition, WallTime changed, WallTime now);

// A merge patch that takes one taint off the node that was read, and fails when the node is another by then; nothing
// when the node does not have it.
Result<std::optional<std::string>> patch_without_taint(std::string_view node_json, std::string_view key);

}  // namespace tranche::kube
