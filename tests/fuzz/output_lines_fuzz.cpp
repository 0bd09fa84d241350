// A child's output → lines: the same bytes give the same lines however they are cut, none longer than the bound.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "os/process/line_reader.h"

namespace {

constexpr std::size_t kLongest = 16;
constexpr std::string_view kCut = "…";

std::vector<std::string> lines_of(std::string_view bytes, std::size_t piece) {
  tranche::host::LineReader reader(kLongest);
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    for (auto& line : reader.take(bytes.substr(0, piece))) lines.push_back(std::move(line));
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  for (auto& line : reader.finish()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = lines_of(bytes, bytes.size() + 1);
  for (const auto& line : whole) {
    if (line.size() > kLongest + kCut.size() || line.find('\n') != std::string::npos) std::abort();
  }
  for (const std::size_t piece : {1u, 3u, 17u}) {
    if (lines_of(bytes, piece) != whole) std::abort();
  }
  return 0;
}
