#pragma once
// The events of a watch, one line each. Kubernetes' API conventions, "Efficient detection of changes":
// ADDED, MODIFIED and DELETED carry an object, BOOKMARK only its resource version, ERROR a Status. Works for any kind
// of object, whose reader is an argument. Pure; fuzzed.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/api_status.h"

namespace tranche::kube {

enum class Change { kAdded, kModified, kDeleted, kBookmark, kError };

struct WatchEvent {
  Change change = Change::kBookmark;
  std::string resource_version;  // of the object; "" for kError
  ApiStatus error;               // for kError
  friend bool operator==(const WatchEvent&, const WatchEvent&) = default;
};

// `object` receives the object of kAdded, kModified and kDeleted, and its errors are returned. kInvalid: not JSON, an
// unknown type, no object, or an object without a version.
Result<WatchEvent> parse_watch_line(std::string_view line,
                                    const std::function<Status(Change change, const nlohmann::json& object)>& object);

}  // namespace tranche::kube
