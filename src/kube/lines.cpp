#include "kube/lines.h"

#include <algorithm>

namespace tranche::kube {

Result<std::vector<std::string>> Lines::take(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!broken_ && !bytes.empty()) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    if (begun_.size() + end > longest_) {
      broken_ = true;
      break;
    }
    begun_.append(bytes.substr(0, end));
    if (end == bytes.size()) break;
    bytes.remove_prefix(end + 1);
    if (begun_.ends_with('\r')) begun_.pop_back();
    if (!begun_.empty()) lines.push_back(std::move(begun_));
    begun_.clear();
  }
  // Complete lines before the long one are dropped too: a caller that receives the error starts again.
  if (broken_)
    return fail(Kind::kInvalid, "the API server sent a line of more than " + std::to_string(longest_) + " bytes");
  return lines;
}

}  // namespace tranche::kube
