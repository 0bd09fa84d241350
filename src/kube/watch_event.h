#pragma once
// The body of a watch: its lines, and the event of each. Kubernetes' API conventions, "Efficient detection of changes":
// ADDED, MODIFIED and DELETED carry an object, BOOKMARK only its resource version, ERROR a Status. Works for any kind
// of object, whose reader is an argument. Pure; fuzzed.
#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/api_status.h"

namespace tranche::kube {

// etcd accepts objects of up to 1.5 MiB; as JSON they are longer.
inline constexpr std::size_t kLongestLine = std::size_t{4} << 20;

// Splits the body, which arrives in pieces of any size, into lines, one JSON document each. A line longer than the
// limit ends the stream, because later lines cannot be trusted to be complete.
class Lines {
 public:
  explicit Lines(std::size_t longest = kLongestLine) : longest_(longest) {}

  // The lines that `bytes` complete, without line ends; empty lines are omitted. kInvalid once a line is too long, and
  // on every later call.
  Result<std::vector<std::string>> take(std::string_view bytes);

 private:
  std::size_t longest_;
  std::string begun_;
  bool broken_ = false;
};

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
