#include "kube/pod_table.h"

#include <set>

namespace tranche::kube {

void PodTable::put(PodSeen pod, PodChanges& changes) {
  using What = PodChange::What;
  const Key key(pod.pod_namespace, pod.name);
  const auto at = pods_.find(key);
  const bool is_new = at == pods_.end() || at->second.uid != pod.uid;
  if (at != pods_.end() && is_new) changes.push_back({What::kGone, at->second});
  const bool deleting = pod.deleting && (is_new || !at->second.deleting);
  const bool ended = pod.over() && (is_new || !at->second.over());
  if (deleting) {
    changes.push_back({What::kDeleting, pod});
  } else if (ended) {
    changes.push_back({What::kEnded, pod});
  } else if (is_new) {
    changes.push_back({What::kNew, pod});
  } else if (pod != at->second) {
    changes.push_back({What::kChanged, pod});
  }
  pods_.insert_or_assign(key, std::move(pod));
}

PodChanges PodTable::replace(std::vector<PodSeen> pods) {
  PodChanges changes;
  std::set<Key> here;
  for (const auto& pod : pods) here.emplace(pod.pod_namespace, pod.name);
  for (auto it = pods_.begin(); it != pods_.end();) {
    if (here.contains(it->first)) {
      ++it;
      continue;
    }
    changes.push_back({PodChange::What::kGone, std::move(it->second)});
    it = pods_.erase(it);
  }
  for (auto& pod : pods) put(std::move(pod), changes);
  return changes;
}

PodChanges PodTable::apply(Change change, PodSeen pod) {
  PodChanges changes;
  if (change == Change::kDeleted) {
    const auto at = pods_.find({pod.pod_namespace, pod.name});
    if (at == pods_.end() || at->second.uid != pod.uid) return changes;
    pods_.erase(at);
    changes.push_back({PodChange::What::kGone, std::move(pod)});
    return changes;
  }
  put(std::move(pod), changes);
  return changes;
}

std::vector<PodSeen> PodTable::pods() const {
  std::vector<PodSeen> list;
  list.reserve(pods_.size());
  for (const auto& [key, pod] : pods_) list.push_back(pod);
  return list;
}

const PodSeen* PodTable::find(const std::string& pod_namespace, const std::string& name) const {
  const auto at = pods_.find({pod_namespace, name});
  return at == pods_.end() ? nullptr : &at->second;
}

}  // namespace tranche::kube
