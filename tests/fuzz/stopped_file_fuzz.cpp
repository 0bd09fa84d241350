// Any text as the file of stopped processes: what is read is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guard/stopped_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto stopped = tranche::guard::parse_stopped({reinterpret_cast<const char*>(data), size});
  if (tranche::guard::parse_stopped(tranche::guard::render_stopped(stopped)) != stopped) std::abort();
  return 0;
}
