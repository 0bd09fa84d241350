#include "os/process/line_reader.h"

namespace tranche::os {

void LineReader::complete(std::vector<std::string>& lines) {
  if (!skipping_) {
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    lines.push_back(std::move(line_));
  }
  line_.clear();
  skipping_ = false;
}

std::vector<std::string> LineReader::take(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto piece = bytes.substr(0, end);
    if (!skipping_) {
      line_.append(piece.substr(0, longest_ + 1 - line_.size()));
      if (line_.size() > longest_) {
        line_.resize(longest_);
        lines.push_back(line_ + "…");
        line_.clear();
        skipping_ = true;
      }
    }
    if (end == std::string_view::npos) break;
    complete(lines);
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string> LineReader::finish() {
  std::vector<std::string> lines;
  if (!line_.empty()) complete(lines);
  skipping_ = false;
  return lines;
}

}  // namespace tranche::os
