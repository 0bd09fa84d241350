// --listen: what is accepted is written back and read again as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "os/http/listen_address.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto address = tranche::host::parse_listen_address({reinterpret_cast<const char*>(data), size});
  if (!address) return 0;
  if (address->host.find_first_of(" ,+\n") != std::string::npos) std::abort();  // would be options of the library
  const auto again = tranche::host::parse_listen_address(to_string(*address));
  if (!again || *again != *address) std::abort();
  return 0;
}
