#include "node/grants/grant_owners.h"

#include <algorithm>

#include "node/grants/holders.h"

namespace tranche::agent {

std::vector<GrantOwner> grant_owners(const std::vector<Holder>& holders, const kube::PodTable& pods) {
  std::vector<GrantOwner> owners;
  owners.reserve(holders.size());
  for (const auto& holder : holders) {
    if (holder.grant.empty()) continue;
    GrantOwner owner{holder.grant, holder.pod_namespace, holder.pod, holder.container, {}, {}, false};
    if (const auto* pod = pods.find(holder.pod_namespace, holder.pod)) {
      owner.uid = pod->uid;
      owner.deleting = pod->deleting;
      const auto container = std::ranges::find(pod->containers, holder.container, &kube::ContainerSeen::name);
      if (container != pod->containers.end()) owner.container_id = container->container_id;
    }
    owners.push_back(std::move(owner));
  }
  std::ranges::sort(owners, {}, &GrantOwner::grant);
  return owners;
}

bool lists_ended_pods(const std::vector<host::PodHolding>& holdings, const kube::PodTable& pods) {
  return std::ranges::any_of(holdings, [&](const host::PodHolding& holding) {
    const auto* pod = pods.find(holding.pod_namespace, holding.pod);
    return pod == nullptr || pod->over();
  });
}

}  // namespace tranche::agent
