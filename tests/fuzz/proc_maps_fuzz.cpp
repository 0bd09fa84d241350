// Any text as a server's memory map.
#include <cstdint>
#include <string_view>

#include "mps/daemon/server_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)tranche::mps::to_string(tranche::mps::shared_memory_in({reinterpret_cast<const char*>(data), size}));
  return 0;
}
