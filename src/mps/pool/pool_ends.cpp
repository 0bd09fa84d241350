// When a pool of a set may stop, and when one may start: never while another holder has its GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "mps/pool/pool_set.h"
#include "os/log/log.h"

namespace tranche::agent {

void PoolSet::set_other_holders(std::set<std::string> devices) {
  other_holders_ = std::move(devices);
  look_again();
}

void PoolSet::look_again() {
  loop_.post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    for (auto& [id, member] : members_) {
      if (!member.wanted) retire(member);
      yield_if_idle(member);
      if (member.wanted && begins_anew(member) && !member.preparing && !stopped_ && !member.retry.running())
        prepare(id);
    }
    sweep();
    on_change_();
  });
}

// It has not started, or it is planned again while it stops or before its last server has exited: then it waits for the
// present holders of its GPUs, as at its first start.
bool PoolSet::begins_anew(const Member& member) {
  if (!member.pool) return true;
  const auto state = member.pool->supervisor().state;
  return !member.switching && (state == mps::State::kAbsent || state == mps::State::kStopping);
}

// The client list may be a few seconds stale; refresh it.
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
  if (const auto end = end_of_use(member); !end.empty() && !stopped_) {
    member.problem = "not configured any more: it ends when its last " + end;
    return;
  }
  member.pool->stop();
}

// The event after which the pool has no users; "" = it has none.
std::string PoolSet::end_of_use(const Member& member) const {
  const auto has_clients = [](const mps::ServerSeen& server) { return !server.clients.empty(); };
  if (std::ranges::any_of(member.pool->supervisor().servers, has_clients)) return "client has left";
  const bool has_endpoints = settings_.endpoints != nullptr && settings_.endpoints->has_endpoints(member.planned.id);
  return has_endpoints ? "container is gone" : "";
}

// On a node where containers held GPUs before this program started, their report may arrive after a pool has started:
// the pool stops again as long as it has no users.
void PoolSet::yield_if_idle(Member& member) {
  if (stopped_ || !member.wanted || member.preparing || member.switching || begins_anew(member)) return;
  const bool held = std::ranges::any_of(member.planned.devices,
                                        [this](const std::string& uuid) { return other_holders_.contains(uuid); });
  if (!held || !end_of_use(member).empty()) return;
  member.waits = true;
  member.problem = waits_for(member.planned.id, member);
  log::info("pool.waits", {{"pool", member.planned.id}, {"why", member.problem}});
  member.pool->stop();
}

// Endpoints stay on disk: they lead nowhere once the pool is gone, and to the same grants if it returns.
void PoolSet::retire_by_force(Member& member) {
  const std::string id = member.planned.id;
  std::set<int> pids;
  for (const auto& server : member.pool->supervisor().servers)
    pids.insert(server.clients.begin(), server.clients.end());
  if (settings_.endpoints != nullptr)
    for (const int pid : settings_.endpoints->clients(id)) pids.insert(pid);
  const std::string why = stopped_ ? "tranche mps --end" : "sharing.change: force";
  member.problem = "it is ended by force (" + why + ")";
  member.forced = true;
  log::warning("pool.forced", {{"pool", id}, {"clients", pids.size()}, {"why", why}});
  if (settings_.endpoints != nullptr) settings_.endpoints->hold_pool(id);  // refuses new clients
  if (pids.empty()) return member.pool->stop();
  member.pool->end_clients({{pids.begin(), pids.end()}}, [this, id](const auto& outcomes) {
    const auto found = members_.find(id);
    if (found == members_.end() || !found->second.pool) return;
    const auto ended = std::ranges::count(outcomes, mps::TerminateOutcome::kTerminated, &mps::Terminated::outcome);
    log::info("pool.drained", {{"pool", id}, {"ended", ended}, {"of", outcomes.size()}});
    if (!found->second.wanted || stopped_) return found->second.pool->stop();
    // It is configured again by now: serves the remaining and new clients.
    found->second.forced = false;
    found->second.problem.clear();
    if (settings_.endpoints == nullptr) return;
    if (const auto opened = settings_.endpoints->open_pool(id); !opened)
      log::warning("pool.endpoints_closed", {{"pool", id}, {"why", opened.error()}});
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
