// Any text as the list of devices that others hold: what is read is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/protocol/other_holders.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto devices = tranche::mps::parse_other_holders({reinterpret_cast<const char*>(data), size});
  if (tranche::mps::parse_other_holders(tranche::mps::render_other_holders(devices)) != devices) std::abort();
  return 0;
}
