// The head of an HTTP request, from any client of the network: read whole or byte by byte, the result is the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "os/http/page_request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kLongest = 256;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = tranche::host::read_http_request(bytes, kLongest);
  if (!whole && size > kLongest) std::abort();  // the bound holds
  if (!whole) return 0;
  if (whole->refused == 0 && whole->path.find_first_of(" ?\r\n") != std::string::npos) std::abort();
  (void)tranche::host::is_own_name(whole->host);
  for (std::size_t n = 0; n < size; ++n) {
    const auto part = tranche::host::read_http_request(bytes.substr(0, n), kLongest);
    if (!part) continue;
    if (part->refused == 0 && (part->method != whole->method || part->path != whole->path ||
                               part->query != whole->query || part->host != whole->host))
      std::abort();
    break;
  }
  return 0;
}
