// Any text as what `tranche mps` answers: understood or refused, never more clients than were written.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guard/mps_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto clients = tranche::guard::read_terminated(text)) {
    if (clients->size() > size || !tranche::guard::read_reply(text)) std::abort();
    for (const auto& client : *clients)
      if (client.pid <= 0) std::abort();
  }
  for (const auto& [id, pool] : tranche::guard::read_pool_facts(text))
    if (pool.own.contains(0) || pool.grant_of.contains(0)) std::abort();
  return 0;
}
