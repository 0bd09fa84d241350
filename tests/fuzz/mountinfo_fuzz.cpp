// Any text as a mount table: the directory that it says is at a path is one below a root directory, or none.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "containers/attribution.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto found = tranche::containers::mounted_at(text, "/run/nvidia/mps");
  if (found && text.find(found->device) == std::string_view::npos) std::abort();
  return 0;
}
