// When a pool of a set may end, and when one may begin: never over what another holds.
#include <fmt/format.h>

#include <algorithm>

#include "agent/mps/pool_set.h"

namespace tranche::agent {

void PoolSet::set_other_holders(std::set<std::string> devices) {
  other_holders_ = std::move(devices);
  look_again();
}

void PoolSet::look_again() {
  loop_.post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    for (auto& [id, member] : members_) {
      if (!member.wanted) retire_if_idle(member);
      if (member.wanted && !member.pool && !member.preparing && !stopped_ && member.retry == 0) prepare(id);
    }
    sweep();
    on_change_();
  });
}

void PoolSet::retire_if_idle(Member& member) {
  if (!member.pool) return;
  const auto& s = member.pool->supervisor();
  if (s.state == mps::State::kAbsent || s.state == mps::State::kStopping) return;
  const bool has_clients =
      std::ranges::any_of(s.servers, [](const mps::ServerSeen& server) { return !server.clients.empty(); });
  if (has_clients && !stopped_) {
    member.problem = "not configured any more: it ends when its last client has left";
    return;
  }
  if (settings_.doors != nullptr && settings_.doors->has_doors(member.planned.id) && !stopped_) {
    member.problem = "not configured any more: it ends when its last container is gone";
    return;
  }
  member.pool->stop();
}

std::string PoolSet::waits_for(const std::string& id, const Member& member) const {
  for (const auto& uuid : member.planned.devices) {
    if (other_holders_.contains(uuid))
      return fmt::format("waits: containers hold {} without MPS; it begins when they are gone", uuid);
    for (const auto& [other, had] : members_) {
      const bool has = std::ranges::find(had.planned.devices, uuid) != had.planned.devices.end();
      if (other != id && !had.wanted && has)
        return fmt::format("waits: pool {} still serves {}; it begins when that has ended", other, uuid);
    }
  }
  return {};
}

}  // namespace tranche::agent
