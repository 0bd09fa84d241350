#include "host/mps/gate_settling.h"

#include <vector>

namespace tranche::host {

GateSettling::~GateSettling() {
  for (const auto& [id, client] : clients_) loop_.cancel(client.timer);
}

void GateSettling::introduced(std::uint64_t id, int pid) {
  clients_[id] = {.pid = pid};
}

bool GateSettling::let_in(std::uint64_t id, Duration patience) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.taken) {
    left(id);
    return true;
  }
  found->second.in = true;
  found->second.timer = loop_.after(patience, [this, id] {
    clients_.at(id).timer = 0;
    finish(id);
  });
  return false;
}

void GateSettling::server_took(int pid) {
  std::vector<std::uint64_t> done;
  for (auto& [id, client] : clients_) {
    if (client.pid != pid) continue;
    client.taken = true;
    if (client.in) done.push_back(id);
  }
  for (const auto id : done) finish(id);
}

void GateSettling::left(std::uint64_t id) {
  const auto found = clients_.find(id);
  if (found != clients_.end() && !found->second.in) clients_.erase(found);
}

void GateSettling::finish(std::uint64_t id) {
  const auto node = clients_.extract(id);
  if (!node) return;
  loop_.cancel(node.mapped().timer);
  settled_(id);
}

}  // namespace tranche::host
