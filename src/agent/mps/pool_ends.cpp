// When a pool of a set may end, and when one may begin: never over what another holds.
#include <fmt/format.h>

#include <algorithm>

#include "agent/mps/pool_set.h"
#include "host/log/log.h"

namespace tranche::agent {
namespace {

constexpr Duration kForcedDrain = std::chrono::seconds(5);  // for clients to be ended through MPS

}  // namespace

void PoolSet::set_other_holders(std::set<std::string> devices) {
  other_holders_ = std::move(devices);
  look_again();
}

void PoolSet::look_again() {
  loop_.post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    for (auto& [id, member] : members_) {
      if (!member.wanted) retire(member);
      if (member.wanted && begins_anew(member) && !member.preparing && !stopped_ && member.retry == 0) prepare(id);
    }
    sweep();
    on_change_();
  });
}

// Not begun yet, or wanted again while it ends or before its last server was gone: whoever came to its GPUs meanwhile
// is waited for as at a first beginning.
bool PoolSet::begins_anew(const Member& member) {
  if (!member.pool) return true;
  const auto state = member.pool->supervisor().state;
  return !member.switching && (state == mps::State::kAbsent || state == mps::State::kStopping);
}

// Clients that are known of may be gone by now: what is known is up to a few seconds old.
void PoolSet::retire(Member& member) {
  retire_if_idle(member);
  if (member.pool) member.pool->look();
}

void PoolSet::retire_if_idle(Member& member) {
  if (!member.pool) return;
  const auto& s = member.pool->supervisor();
  if (s.state == mps::State::kAbsent || s.state == mps::State::kStopping) return;
  if (member.forced) return;
  if (change_ == config::ChangePolicy::kForce && !stopped_) return retire_by_force(member);
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

// Doors stay where they are: they lead nowhere once the pool is gone, and to the same grants should it come back.
void PoolSet::retire_by_force(Member& member) {
  const std::string id = member.planned.id;
  std::set<int> pids;
  for (const auto& server : member.pool->supervisor().servers)
    pids.insert(server.clients.begin(), server.clients.end());
  if (settings_.doors != nullptr)
    for (const int pid : settings_.doors->clients(id)) pids.insert(pid);
  member.problem = "not configured any more: it is ended by force (sharing.change: force)";
  member.forced = true;
  log::warning("pool.forced", {{"pool", id}, {"clients", pids.size()}, {"why", "sharing.change: force"}});
  if (settings_.doors != nullptr) settings_.doors->hold_pool(id);  // nobody comes in any more
  if (pids.empty()) return member.pool->stop();
  member.pool->terminate({pids.begin(), pids.end()}, kForcedDrain, [this, id](const auto& outcomes) {
    const auto found = members_.find(id);
    if (found == members_.end() || !found->second.pool) return;
    const auto ended = std::ranges::count(outcomes, mps::TerminateOutcome::kTerminated, &mps::Terminated::outcome);
    log::info("pool.drained", {{"pool", id}, {"terminated", ended}, {"of", outcomes.size()}});
    if (!found->second.wanted || stopped_) return found->second.pool->stop();
    // It is configured again by now: who is left, and whoever comes, is served on.
    found->second.forced = false;
    found->second.problem.clear();
    if (settings_.doors == nullptr) return;
    if (const auto opened = settings_.doors->open_pool(id); !opened)
      log::warning("pool.doors_closed", {{"pool", id}, {"why", opened.error()}});
  });
}

std::string PoolSet::waits_for(const std::string& id, const Member& member) const {
  for (const auto& uuid : member.planned.devices) {
    if (const auto found = giving_back_.find(uuid); found != giving_back_.end() && !found->second)
      return fmt::format("waits: {} is being given back its compute mode; it begins after that", uuid);
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
