// Any text as a process' mount table: a door of the allowed shape, or none.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guard/attribution.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto door = tranche::guard::door_of_mountinfo(text, "/run/tranche/mps")) {
    if (door->grant.size() != 16 || door->pool.empty() || door->pool.find('/') != std::string::npos) std::abort();
  }
  return 0;
}
