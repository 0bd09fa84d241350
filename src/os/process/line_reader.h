#pragma once
// Splits bytes into whole lines of bounded length. Pure.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::os {

class LineReader {
 public:
  explicit LineReader(std::size_t longest) : longest_(longest) {}

  // The lines that `bytes` complete, without their "\n" or "\r\n". The beginning of a too long line is returned as soon
  // as the limit is reached, with "…" at its end; the rest of the line is dropped.
  std::vector<std::string> take(std::string_view bytes);
  std::vector<std::string> finish();  // the last line, if it had no end

 private:
  void complete(std::vector<std::string>& lines);

  std::size_t longest_;
  std::string line_;
  bool skipping_ = false;  // inside the rest of a too long line
};

}  // namespace tranche::os
