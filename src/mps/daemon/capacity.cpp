#include "mps/daemon/capacity.h"

#include <fmt/format.h>

namespace tranche::mps {

std::uint32_t live_clients(const Supervisor& state) {
  std::size_t clients = 0;
  for (const auto& server : state.servers) clients += server.clients.size();
  return static_cast<std::uint32_t>(clients);
}

std::string capacity_note(std::uint32_t live, std::uint32_t most) {
  if (most == 0 || std::uint64_t{live} * 10 < std::uint64_t{most} * 9) return {};
  if (live >= most)
    return fmt::format("all {} clients that MPS serves here are connected: the next CUDA process fails to start", most);
  return fmt::format("{} of at most {} clients are connected: CUDA processes beyond that fail to start", live, most);
}

}  // namespace tranche::mps
