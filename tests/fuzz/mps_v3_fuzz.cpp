// Tables of interface version 3: no crash, numbers in range, and a namespace agrees with its own limits.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/control/v3.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  using namespace tranche::mps::v3;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_servers(text);
  if (const auto clients = parse_clients(text)) {
    for (const auto& client : *clients)
      if (client.pid <= 0) std::abort();
  }
  if (const auto spaces = parse_namespaces(text)) {
    for (const auto& one : *spaces)
      if (!disagreement({one.memory, {}}, one).empty()) std::abort();
  }
  if (const auto name = encoded_name(text); name && (name->empty() || name->size() > 64)) std::abort();
  return 0;
}
