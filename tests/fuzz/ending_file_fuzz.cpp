// Any text as the file of processes that are being ended: what is read is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/pool/client_ending.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto processes = tranche::mps::parse_ending({reinterpret_cast<const char*>(data), size});
  if (tranche::mps::parse_ending(tranche::mps::render_ending(processes)) != processes) std::abort();
  return 0;
}
