#include "mps/control/listed_clients.h"

#include <utility>

namespace tranche::host {

void ListedClients::heard(std::uint64_t asked, const std::vector<int>& pids) {
  std::map<int, std::optional<ProcessRef>> now;
  for (const int pid : pids) {
    if (now.contains(pid)) continue;
    if (const auto before = known_.find(pid); before != known_.end()) {
      now.insert(*before);
      continue;
    }
    const auto ref = look_(pid);
    if (ref && ref->start_ticks > asked) continue;  // the next list decides
    now.emplace(pid, ref ? std::optional(*ref) : std::nullopt);
  }
  known_ = std::move(now);
}

void ListedClients::ended(int pid) {
  known_.insert_or_assign(pid, std::nullopt);
}

std::optional<ProcessRef> ListedClients::find(int pid) const {
  const auto found = known_.find(pid);
  const auto listed = found == known_.end() ? std::nullopt : found->second;
  if (!listed) return std::nullopt;
  const auto now = look_(pid);
  return now && *now == *listed ? listed : std::nullopt;
}

}  // namespace tranche::host
