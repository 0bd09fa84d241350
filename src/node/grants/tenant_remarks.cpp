#include "node/grants/tenant_remarks.h"

#include <algorithm>

namespace tranche::agent {
namespace {

// Of all grants of the container: a process has one percentage for all its devices.
mps::GrantedLimits granted_limits(const std::vector<Holder>& holders, const std::string& pod_namespace,
                                  const std::string& pod, const std::string& container) {
  mps::GrantedLimits granted;
  for (const auto& holder : holders) {
    if (holder.grant.empty() || holder.pod_namespace != pod_namespace || holder.pod != pod ||
        holder.container != container)
      continue;
    for (const auto& device : holder.devices) {
      granted.memory.emplace_back(device.uuid, device.limits.memory);
      const Percent own = device.limits.threads;
      if (own.hundredths > 0) granted.threads = granted.threads.hundredths == 0 ? own : std::min(granted.threads, own);
    }
  }
  return granted;
}

}  // namespace

void TenantRemarks::pods(const kube::PodChanges& changes) {
  for (const auto& [what, pod] : changes) {
    const std::pair key{pod.pod_namespace, pod.name};
    const bool over = what == kube::PodChange::What::kGone || what == kube::PodChange::What::kEnded;
    if (!over && !pod.mps_environments.empty()) {
      pods_.insert_or_assign(key, Pod{pod.uid, pod.mps_environments});
      continue;
    }
    pods_.erase(key);
    std::erase_if(reported_, [&](const auto& reported) { return std::get<0>(reported) == pod.uid; });
  }
}

std::vector<UnreportedRemark> TenantRemarks::look(const std::vector<Holder>& holders) {
  std::vector<UnreportedRemark> unreported;
  for (const auto& [name, pod] : pods_) {
    for (const auto& environment : pod.environments) {
      const auto granted = granted_limits(holders, name.first, name.second, environment.container);
      if (granted.memory.empty()) continue;
      for (auto& remark : mps::remarks_on({environment.threads, environment.memory}, granted)) {
        if (!reported_.emplace(pod.uid, environment.container, remark.message).second) continue;
        unreported.push_back(
            {kube::ObjectRef::pod(name.first, name.second, pod.uid), environment.container, std::move(remark)});
      }
    }
  }
  return unreported;
}

}  // namespace tranche::agent
