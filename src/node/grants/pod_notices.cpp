#include "node/grants/tenants.h"

#include <fmt/format.h>

#include <algorithm>

#include "mps/limits/tenant_limits.h"

namespace tranche::node {
namespace {

bool is_of(const Holder& holder, const std::pair<std::string, std::string>& pod) {
  return !holder.grant.empty() && holder.pod == pod.second && holder.pod_namespace == pod.first;
}

}  // namespace

void PodNotices::given(const std::string& grant) {
  std::erase_if(holders_, [&](const Holder& holder) { return holder.grant == grant; });
  refused_.erase(grant);
}

void PodNotices::held(const std::vector<Holder>& holders, const std::map<std::string, std::string>& pool_of) {
  holders_ = holders;
  std::set<std::string> containers;
  for (const auto& holder : holders_)
    if (!holder.grant.empty()) containers.insert(holder_name(holder));
  std::erase_if(reported_, [&](const auto& reported) { return !containers.contains(reported.first); });
  add_remarks();
  add_refused();
  add_split(pool_of);
}

void PodNotices::pods(const kube::PodChanges& changes) {
  for (const auto& [what, pod] : changes) {
    const std::pair key{pod.pod_namespace, pod.name};
    const bool over = what == kube::PodChange::What::kGone || what == kube::PodChange::What::kEnded;
    if (!over && !pod.mps_environments.empty()) {
      pods_.insert_or_assign(key, Pod{pod.uid, pod.mps_environments});
    } else {
      pods_.erase(key);
    }
  }
  add_remarks();
}

void PodNotices::pools(const mps::PoolReports& reports) {
  if (!reports.connected) return;
  std::map<std::string, std::uint64_t> now;
  for (const auto& [id, pool] : reports.pools) {
    for (const auto& endpoint : pool.endpoints) {
      const auto before = seen_.find(endpoint.grant);
      now[endpoint.grant] = endpoint.limits_lifted;
      if (!first_ && endpoint.limits_lifted > (before == seen_.end() ? 0 : before->second))
        refused_[endpoint.grant] = endpoint.refused_why;
    }
  }
  std::erase_if(refused_, [&](const auto& refused) { return !now.contains(refused.first); });
  seen_ = std::move(now);
  first_ = false;
  add_refused();
}

void PodNotices::add(PodNotice notice) {
  // With the uid: the next pod of that name may be held before kubelet's list was without this one.
  const auto container = fmt::format("{}/{}/{}", notice.pod_namespace, notice.pod, notice.container);
  if (reported_[container].insert(notice.uid + notice.message).second) ready_.push_back(std::move(notice));
}

// No limit depends on what the API server shows of a pod's environment: a tenant can write any for its own processes.
void PodNotices::add_remarks() {
  for (const auto& [name, pod] : pods_) {
    for (const auto& environment : pod.environments) {
      // Of all grants of the container: a process has one percentage for all its devices.
      mps::GrantedLimits granted;
      std::string grant;
      for (const auto& holder : holders_) {
        if (!is_of(holder, name) || holder.container != environment.container) continue;
        grant = grant.empty() ? holder.grant : grant;
        for (const auto& device : holder.devices) {
          granted.memory.emplace_back(device.uuid, device.limits.memory);
          const Percent own = device.limits.threads;
          if (own.hundredths > 0)
            granted.threads = granted.threads.hundredths == 0 ? own : std::min(granted.threads, own);
        }
      }
      if (granted.memory.empty()) continue;
      for (const auto& remark : mps::remarks_on({environment.threads, environment.memory}, granted))
        add({remark.understood ? &kube::kMpsLimitWithoutEffect : &kube::kMpsLimitNotUnderstood, "tenant.limit",
             name.first, name.second, environment.container, pod.uid, grant, remark.message});
    }
  }
}

// The log of `tranche mps` names the process that it refused; this names the container.
void PodNotices::add_refused() {
  std::erase_if(refused_, [&](const auto& refused) {
    const auto* holder = find_holder(holders_, refused.first);
    if (holder == nullptr) return false;
    add({&kube::kMpsLimitNotUnderstood, "tenant.refused", holder->pod_namespace, holder->pod, holder->container, "",
         refused.first, "MPS refused a process: " + refused.second});
    return true;
  });
}

// Each answer to kubelet names one endpoint, kubelet merges the answers of a container, and a CUDA process connects to
// one daemon: the slots of the container's other pools are idle.
void PodNotices::add_split(const std::map<std::string, std::string>& pool_of) {
  std::map<std::string, std::pair<const Holder*, std::set<std::string>>> pools_of;
  for (const auto& holder : holders_) {
    const auto pool = pool_of.find(holder.grant);
    if (pool == pool_of.end() || !holder.claim.empty()) continue;  // containers with requests of one name may be others
    auto& [first, pools] = pools_of[holder_name(holder)];
    if (first == nullptr) first = &holder;
    pools.insert(pool->second);
  }
  for (const auto& [name, container] : pools_of) {
    const auto& [first, pools] = container;
    if (pools.size() < 2) continue;
    add({&kube::kMpsTwoPools, "tenant.pools", first->pod_namespace, first->pod, first->container, "", first->grant,
         fmt::format("it holds slots of {} MPS pools ({}), and a CUDA process can use one of them only: ask for slots "
                     "of one GPU, or have the operator join the GPUs (split: span)",
                     pools.size(), fmt::join(pools, ", "))});
  }
}

}  // namespace tranche::node
