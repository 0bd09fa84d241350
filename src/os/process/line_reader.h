#pragma once
// Private to os/process: bytes in pieces → whole lines of bounded length. Pure.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::host {

class LineReader {
 public:
  explicit LineReader(std::size_t longest) : longest_(longest) {}

  // The lines that `bytes` complete, without their "\n" or "\r\n". Of one that is too long the beginning is given with
  // "…" behind it, as soon as it is too long, and the rest of it is dropped.
  std::vector<std::string> take(std::string_view bytes);
  std::vector<std::string> finish();  // the last line, if it had no end

 private:
  void complete(std::vector<std::string>& lines);

  std::size_t longest_;
  std::string line_;
  bool skipping_ = false;  // inside the rest of a line that was too long
};

}  // namespace tranche::host
