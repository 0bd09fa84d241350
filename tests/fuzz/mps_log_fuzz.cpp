// Log lines of MPS: pids are never negative, and the views lie within the line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/control/log_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto line = tranche::mps::parse_log_line(text);
  if (!line) return 0;
  if (line->pid < 0 || line->writer < 0) std::abort();
  if (line->text.data() + line->text.size() != text.data() + text.size()) std::abort();
  return 0;
}
