// Any text as the file of a relay's clients: what is read is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/relay/client_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto stored = tranche::mps::parse_clients({reinterpret_cast<const char*>(data), size});
  if (tranche::mps::parse_clients(tranche::mps::render_clients(stored)) != stored) std::abort();
  return 0;
}
