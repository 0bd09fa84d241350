// Any text as a reply or a report of `tranche mps`: understood or refused, never more clients than were written.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guard/pool_processes.h"
#include "mps/protocol/replies.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto reply = tranche::agent::read_end_reply(text)) {
    if (reply->clients.size() > size || !tranche::agent::read_reply(text)) std::abort();
    for (const auto& client : reply->clients)
      if (client.pid <= 0) std::abort();
  }
  if (const auto reports = tranche::agent::parse_pool_reports(text)) {
    for (const auto& [id, pool] : tranche::guard::pool_processes(*reports))
      if (pool.own.contains(0) || pool.grant_of.contains(0)) std::abort();
  }
  return 0;
}
