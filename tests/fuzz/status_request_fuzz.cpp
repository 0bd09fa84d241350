// Requests on a status socket: the same bytes give the same requests however they are cut into pieces; what is accepted
// is bounded, printable and not empty.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "os/socket/connection.h"

namespace {

std::vector<std::string> requests_of(std::string_view bytes, std::size_t piece) {
  tranche::host::RequestReader reader;
  std::vector<std::string> requests;
  while (!bytes.empty()) {
    reader.take(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (const auto request = reader.next()) {
      if (!*request) {
        requests.push_back("");  // refused: the connection ends here
        return requests;
      }
      if ((*request)->empty() || (*request)->size() > tranche::host::RequestReader::kLongest) std::abort();
      for (const char c : **request) {
        if (c < 0x20 || c > 0x7e) std::abort();
      }
      requests.push_back(**request);
    }
  }
  return requests;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = requests_of(bytes, 4096);
  if (requests_of(bytes, 1) != whole || requests_of(bytes, 7) != whole) std::abort();
  return 0;
}
