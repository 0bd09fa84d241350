// Any text as the file of the configuration in force: what is read is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/choose.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto chosen = tranche::config::parse_chosen({reinterpret_cast<const char*>(data), size});
  if (chosen && tranche::config::parse_chosen(tranche::config::render_chosen(*chosen)) != chosen) std::abort();
  return 0;
}
