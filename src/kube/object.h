#pragma once
// Objects of any kind, their lists and watches, and the Status of a refused request, as far as API conventions define
// them, and the few fields of a node and a ConfigMap that are used. Requests with which the node agent changes its
// Node: conditions of its own, and the removal of one startup taint. Builds the texts and sends nothing. Pure; fuzzed.
#include <expected>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/enum_names.h"
#include "base/result.h"
#include "base/time.h"

namespace tranche::kube::http {

// The HTTP status codes of the API server that programs distinguish (RFC 9110; Kubernetes API conventions).
inline constexpr int kOk = 200;
inline constexpr int kBadRequest = 400;
inline constexpr int kUnauthorized = 401;
inline constexpr int kForbidden = 403;
inline constexpr int kNotFound = 404;
inline constexpr int kConflict = 409;
inline constexpr int kGone = 410;  // the listed or watched version has expired: list again
inline constexpr int kUnprocessable = 422;

}  // namespace tranche::kube::http

namespace tranche::kube {

// The Status object that the API server returns when it refuses a request.
struct ApiStatus {
  int code = 0;            // the HTTP status, 0 if absent
  std::string message;     // for people
  Duration retry_after{};  // zero if absent
  friend bool operator==(const ApiStatus&, const ApiStatus&) = default;
};

ApiStatus read_status(const nlohmann::json& object);
// From any body: if it is not a Status, the message is a short piece of its text.
ApiStatus status_of_body(int http_status, std::string_view body);

std::string name_of(const nlohmann::json& object);  // "" if it has none

struct ListHead {
  std::string resource_version;
  std::string next;  // the token for the next page, "" on the last
};
// `item` receives each object as it is read. kInvalid: not a list; discard what `item` received.
Result<ListHead> parse_list(std::string_view body, const std::function<void(const nlohmann::json& object)>& item);

// Kubernetes' API conventions, "Efficient detection of changes": kAdded, kModified and kDeleted carry an object,
// kBookmark only its resource version, kError a Status.
enum class Change { kAdded, kModified, kDeleted, kBookmark, kError };
ENUM_NAMES(Change::kError, "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")

// A line of a watch's body → the resource version that it brings. `object` receives the object of kAdded, kModified and
// kDeleted. The error is that of kError; of a line that is not JSON or has an unknown type, no object or no version,
// http::kGone: nobody knows what was missed, so everything has to be listed again.
std::expected<std::string, ApiStatus> parse_watch_line(
    std::string_view line, const std::function<void(Change change, const nlohmann::json& object)>& object);

using Texts = std::map<std::string, std::string>;
// Entries that are not text are omitted.
Texts labels_of(const nlohmann::json& object);
Texts data_of_config_map(const nlohmann::json& object);  // "data"; without "binaryData", which is not text

// "namespace/name" of a ConfigMap; both are valid names.
struct ObjectName {
  std::string in_namespace;
  std::string name;
  friend bool operator==(const ObjectName&, const ObjectName&) = default;
};
Result<ObjectName> parse_object_name(std::string_view text);

// --- the Node ------------------------------------------------------------------------------------------------------

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

// An entry of an object's status.conditions, without its times; `reason` is one word: "Prepared".
nlohmann::json condition_json(std::string_view type, bool holds, std::string_view reason, std::string_view message);
// A strategic merge patch of the status, which preserves all other conditions because the list is merged by type.
// `changed`: since when the condition has its value.
std::string condition_patch(const NodeCondition& condition, WallTime changed, WallTime now);

// A merge patch that removes one taint from the node that was read, and fails if the node has changed since; absent if
// the node does not have the taint.
Result<std::optional<std::string>> patch_without_taint(std::string_view node_json, std::string_view key);

}  // namespace tranche::kube
