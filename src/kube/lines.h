#pragma once
// Splits a watch's body, which arrives in pieces of any size, into lines, one JSON document each. A line longer than
// the limit ends the stream, because later lines cannot be trusted to be complete. Pure; fuzzed together with
// watch_event.h.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tranche::kube {

// etcd accepts objects of up to 1.5 MiB; as JSON they are longer.
inline constexpr std::size_t kLongestLine = std::size_t{4} << 20;

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

}  // namespace tranche::kube
