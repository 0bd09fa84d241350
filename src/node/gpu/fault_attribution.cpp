#include "node/gpu/fault_attribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tranche::node {
namespace {

std::string name_of(const FaultParty& party) {
  return party.holder.empty() ? fmt::format("process {}", party.pid)
                              : fmt::format("process {} of {}", party.pid, party.holder);
}

std::string others(std::size_t count) {
  return count == 0 ? "no other client was hit"
                    : fmt::format("{} client{} of the same GPU ended with it", count, count == 1 ? "" : "s");
}

}  // namespace

void FaultAttribution::processes(const std::map<pid_t, std::string>& grant_of_pid, MonoTime now) {
  for (const auto& [pid, grant] : grant_of_pid) known_[pid] = {grant, now};
  std::erase_if(known_, [now](const auto& each) { return now - each.second.seen > kRemembered; });
}

void FaultAttribution::holders(const std::map<std::string, std::string>& holder_of_grant) {
  // A grant whose pod is gone keeps its holder until the grant has a new one.
  for (const auto& [grant, holder] : holder_of_grant) {
    holder_of_[grant] = holder;
    awaited_.erase(grant);
  }
  std::erase_if(holder_of_, [&](const auto& each) {
    return holder_of_.size() > holder_of_grant.size() + kKept * 4 && !holder_of_grant.contains(each.first);
  });
}

void FaultAttribution::given(const std::string& grant) {
  holder_of_.erase(grant);
  awaited_.insert(grant);
}

bool FaultAttribution::awaits(std::int64_t pid) const {
  const auto known = known_.find(pid);
  return known != known_.end() && awaited_.contains(known->second.grant);
}

FaultParty FaultAttribution::party(std::int64_t pid) const {
  FaultParty found{.pid = pid, .grant = {}, .holder = {}};
  const auto known = known_.find(pid);
  if (known == known_.end()) return found;
  found.grant = known->second.grant;
  if (const auto holder = holder_of_.find(found.grant); holder != holder_of_.end()) found.holder = holder->second;
  return found;
}

std::vector<ReportedFault> FaultAttribution::update(const mps::PoolReports& reports, MonoTime now) {
  if (!reports.connected) return {};
  std::set<Key> present;
  for (const auto& [id, pool] : reports.pools) {
    for (const auto& fault : pool.faults) {
      const Key key{id, fault.at_ms, fault.kind, fault.culprit};
      present.insert(key);
      if (seen_.contains(key)) continue;
      for (const auto& [pid, grant] : fault.grants) known_[pid] = {grant, now};
      waiting_.push_back({id, fault, now, !first_});
    }
  }
  seen_ = std::move(present);
  first_ = false;
  return settled(now);
}

std::vector<ReportedFault> FaultAttribution::settled(MonoTime now) {
  std::vector<ReportedFault> reports;
  std::erase_if(waiting_, [&](const Waiting& each) {
    const bool awaited =
        awaits(each.fault.culprit) || std::ranges::any_of(each.fault.victims, [&](auto pid) { return awaits(pid); });
    if (awaited && now - each.since < kPatience) return false;
    ReportedFault fault{each.fault.at_ms, each.pool, each.fault.kind, party(each.fault.culprit), {}};
    for (const auto pid : each.fault.victims) fault.victims.push_back(party(pid));
    last_.push_back(fault);
    if (each.ours) reports.push_back(std::move(fault));
    return true;
  });
  while (last_.size() > kKept) last_.pop_front();
  return reports;
}

std::string culprit_text(const ReportedFault& fault) {
  if (fault.kind == "unclean-exit")
    return fmt::format("{} ended without leaving MPS (pool {}): had it work in flight, its neighbours are at risk; {}",
                       name_of(fault.culprit), fault.pool, others(fault.victims.size()));
  return fmt::format(
      "MPS names {} as the cause of a fault on the GPU (pool {}): {}; {}", name_of(fault.culprit), fault.pool,
      others(fault.victims.size()),
      fault.victims.empty()
          ? "it was alone there"
          : "one that computed at that moment, or that ended some seconds before, may be the cause as well");
}

std::string victim_text(const ReportedFault& fault) {
  return fmt::format(
      "a client of this pod was ended by a fault on the GPU (pool {}); MPS names {} as the cause, and is not always "
      "right; "
      "it can start again",
      fault.pool, name_of(fault.culprit));
}

}  // namespace tranche::node
