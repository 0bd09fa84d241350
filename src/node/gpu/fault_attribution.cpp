#include "node/gpu/fault_attribution.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/find_in.h"

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

void FaultAttribution::processes(const std::map<pid_t, std::string>& grant_of_pid, const std::vector<Holder>& holders,
                                 MonoTime now) {
  std::map<std::string_view, const Holder*> holder_of;
  for (const auto& holder : holders) holder_of.emplace(holder.grant, &holder);
  for (const auto& [pid, grant] : grant_of_pid) {
    auto& [party, seen] = known_[pid];
    seen = now;
    if (party.grant != grant) party = {pid, grant, ""};
    const auto holder = holder_of.find(grant);
    if (holder == holder_of.end()) continue;
    auto name = holder_name(*holder->second);
    if (!party.holder.empty() && party.holder != name) continue;
    party.holder = std::move(name);
    party.object = object_of(*holder->second);
  }
  std::erase_if(known_, [now](const auto& each) { return now - each.second.seen > kRemembered; });
}

FaultParty FaultAttribution::party(pid_t pid) const {
  const auto* known = find_in(known_, pid);
  return known == nullptr ? FaultParty{pid, "", ""} : known->party;
}

std::vector<ReportedFault> FaultAttribution::update(const mps::PoolReports& reports, const std::vector<Holder>& holders,
                                                    MonoTime now) {
  if (!reports.connected) return {};
  std::vector<ReportedFault> fresh;
  std::set<Key> present;
  for (const auto& [id, pool] : reports.pools) {
    for (const auto& fault : pool.faults) {
      const Key key{id, fault.at_ms, fault.kind, fault.culprit};
      present.insert(key);
      if (seen_.contains(key)) continue;
      processes(fault.grants, holders, now);
      ReportedFault report{fault.at_ms, id, fault.kind, party(fault.culprit), {}};
      for (const auto pid : fault.victims) report.victims.push_back(party(pid));
      last_.push_back(report);
      if (!first_) fresh.push_back(std::move(report));
    }
  }
  seen_ = std::move(present);
  first_ = false;
  while (last_.size() > kKept) last_.pop_front();
  return fresh;
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
