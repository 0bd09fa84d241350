#include "node/grants/late_pods.h"

#include <algorithm>
#include <set>

namespace tranche::agent {

bool LatePods::complete(std::vector<host::PodHolding>& listed, const std::vector<host::PodHolding>& before,
                        const kube::PodTable& pods) {
  std::set<Key> there;
  std::set<std::pair<std::string, std::string>> held;  // resource, slot
  for (const auto& holding : listed) {
    there.emplace(holding.pod_namespace, holding.pod);
    for (const auto& slot : holding.slots) held.emplace(holding.resource, slot);
  }
  std::map<Key, std::string> uids;
  const auto remember = [&](const Key& key, const kube::PodSeen* pod) {
    if (pod != nullptr) uids.emplace(key, pod->uid);
  };
  for (const auto& key : there) remember(key, pods.find(key.first, key.second));
  bool late = false;
  for (const auto& holding : before) {
    const Key key{holding.pod_namespace, holding.pod};
    const auto known = uids_.find(key);
    if (there.contains(key) || known == uids_.end()) continue;
    const auto* pod = pods.find(key.first, key.second);
    if (pod == nullptr || pod->over() || pod->uid != known->second) continue;
    if (std::ranges::any_of(holding.slots, [&](const auto& slot) { return held.contains({holding.resource, slot}); }))
      continue;
    listed.push_back(holding);
    remember(key, pod);
    late = true;
  }
  uids_ = std::move(uids);
  return late;
}

}  // namespace tranche::agent
