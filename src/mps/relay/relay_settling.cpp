#include "mps/relay/relay_settling.h"

#include <vector>

namespace tranche::host {

void RelaySettling::introduced(std::uint64_t id, int pid) {
  clients_.erase(id);
  clients_.try_emplace(id, loop_, pid);
}

bool RelaySettling::let_in(std::uint64_t id, Duration patience) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.taken) {
    left(id);
    return true;
  }
  found->second.in = true;
  found->second.timer.start(patience, [this, id] { finish(id); });
  return false;
}

void RelaySettling::server_took(int pid) {
  std::vector<std::uint64_t> done;
  for (auto& [id, client] : clients_) {
    if (client.pid != pid) continue;
    client.taken = true;
    if (client.in) done.push_back(id);
  }
  for (const auto id : done) finish(id);
}

void RelaySettling::left(std::uint64_t id) {
  const auto found = clients_.find(id);
  if (found != clients_.end() && !found->second.in) clients_.erase(found);
}

void RelaySettling::finish(std::uint64_t id) {
  if (clients_.erase(id) != 0) settled_(id);
}

}  // namespace tranche::host
