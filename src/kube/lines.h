#pragma once
// A watch's body as it arrives, in pieces of any size → its lines, one JSON document each. A line longer than the limit
// ends the stream: nothing after it can be trusted to be whole. Pure; fuzzed together with watch_event.h.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tranche::kube {

// etcd takes objects of up to 1.5 MiB; as JSON they are longer.
inline constexpr std::size_t kLongestLine = std::size_t{4} << 20;

class Lines {
 public:
  explicit Lines(std::size_t longest = kLongestLine) : longest_(longest) {}

  // The lines that `bytes` complete, without their ends; empty ones are left out. kInvalid once a line is too long, and
  // at every call after that.
  Result<std::vector<std::string>> take(std::string_view bytes);

 private:
  std::size_t longest_;
  std::string begun_;
  bool broken_ = false;
};

}  // namespace tranche::kube
