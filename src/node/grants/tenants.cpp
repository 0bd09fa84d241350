#include "node/grants/tenants.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mps/limits/limits.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

constexpr Duration kShownWithin = std::chrono::seconds(5);  // in a report, after the request, or sent again

mps::GrantLimits limits_of(const guard::Tenant& tenant) {
  mps::GrantLimits limits;
  for (const auto& [uuid, device] : tenant.devices)
    limits.push_back({uuid, mib(device.memory.in_mib()), device.threads});
  return limits;
}

}  // namespace

void EndpointLimitSender::follow(const guard::Tenants& tenants, const mps::PoolReports& pools) {
  if (!pools.connected) return;
  std::set<mps::EndpointName> wrong;
  for (const auto& [name, tenant] : tenants) {
    const auto pool = pools.pools.find(tenant.pool);
    if (pool == pools.pools.end() || pool->second.endpoint != "relay") continue;  // a link does not distinguish clients
    const auto limits = limits_of(tenant);
    for (const auto& grant : tenant.grants) {
      const auto* endpoint = mps::find_endpoint(pool->second, grant);
      if (endpoint == nullptr) continue;
      auto shown = endpoint->limits.value_or(mps::GrantLimits{});
      std::ranges::sort(shown, {}, &mps::GrantLimit::uuid);
      if (shown == limits) continue;
      wrong.insert({tenant.pool, grant});
      request({tenant.pool, grant}, limits);
    }
  }
  std::erase_if(requested_, [&](const auto& entry) { return !wrong.contains(entry.first); });
}

void EndpointLimitSender::request(const mps::EndpointName& endpoint, const mps::GrantLimits& limits) {
  Requested& requested = requested_[endpoint];
  if (requested.limits != limits) requested = {.limits = limits};
  if (requested.waiting || loop_.now() < requested.not_before) return;
  requested.waiting = true;
  mps_.request(mps::OpenEndpointRequest{endpoint, {limits}}, [this, endpoint, limits](const auto& opened) {
    const auto it = requested_.find(endpoint);
    if (it == requested_.end() || it->second.limits != limits) return;
    it->second.waiting = false;
    it->second.not_before = loop_.now() + kShownWithin;
    if (opened)
      log::info("endpoint.limits", {{"pool", endpoint.pool}, {"grant", endpoint.grant}, {"devices", limits.size()}});
    else if (!std::exchange(it->second.failed, true))
      log::warning("endpoint.limits_not_told",
                   {{"pool", endpoint.pool}, {"grant", endpoint.grant}, {"why", opened.error()}});
  });
}

std::vector<PodNotice> PodNotices::look(const SharedList<Holder>& holders, const kube::PodTable& pods) {
  if (refused_.empty() && holders == looked_) return {};
  looked_ = holders;
  std::set<std::string> containers;
  for (const auto& holder : holders)
    if (!holder.grant.empty()) containers.insert(holder_name(holder));
  std::erase_if(reported_, [&](const auto& reported) { return !containers.contains(reported.first); });
  add_remarks(holders, pods);
  add_refused(holders);
  add_split(holders);
  return std::exchange(ready_, {});
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
}

void PodNotices::add(PodNotice notice) {
  // With the uid: the next pod of that name may be held before kubelet's list was without this one.
  if (reported_[holder_name(notice.holder)].insert(notice.uid + notice.message).second)
    ready_.push_back(std::move(notice));
}

// No limit depends on what the API server shows of a pod's environment: a tenant can write any for its own processes.
void PodNotices::add_remarks(const std::vector<Holder>& holders, const kube::PodTable& pods) {
  struct Container {
    const kube::PodSeen* pod;
    const kube::MpsEnvironmentSeen* environment;
    const Holder* first;
    mps::DaemonLimits granted = {};  // of all its grants: a process has one percentage for all its devices
  };
  std::map<std::string, Container> containers;
  for (const auto& holder : holders) {
    const auto* pod = holder.grant.empty() ? nullptr : pods.find(holder.pod_namespace, holder.pod);
    if (pod == nullptr || pod->over()) continue;
    const auto found = std::ranges::find(pod->mps_environments, holder.container, &kube::MpsEnvironmentSeen::container);
    if (found == pod->mps_environments.end()) continue;
    auto& granted = containers.try_emplace(holder_name(holder), pod, &*found, &holder).first->second.granted;
    for (const auto& device : holder.devices) {
      granted.memory.emplace_back(device.uuid, device.limits.memory);
      if (const Percent own = device.limits.threads; own != Percent{}) granted.threads = std::min(granted.threads, own);
    }
  }
  for (const auto& [name, of] : containers) {
    if (of.granted.memory.empty()) continue;
    for (const auto& remark :
         mps::remarks_on(of.environment->threads.value_or(""), of.environment->memory.value_or(""), of.granted))
      add({remark.understood ? &kube::kMpsLimitWithoutEffect : &kube::kMpsLimitNotUnderstood, "tenant.limit", *of.first,
           of.pod->uid, remark.message});
  }
}

// The log of `tranche mps` names the process that it refused; this names the container.
void PodNotices::add_refused(const std::vector<Holder>& holders) {
  std::erase_if(refused_, [&](const auto& refused) {
    const auto* holder = find_holder(holders, refused.first);
    if (holder == nullptr) return false;
    add({&kube::kMpsLimitNotUnderstood, "tenant.refused", *holder, "", "MPS refused a process: " + refused.second});
    return true;
  });
}

// Each answer to kubelet names one endpoint, kubelet merges the answers of a container, and a CUDA process connects to
// one daemon: the slots of the container's other pools are idle.
void PodNotices::add_split(const std::vector<Holder>& holders) {
  std::map<std::string, std::pair<const Holder*, std::set<std::string>>> pools_of;
  for (const auto& holder : holders) {
    if (holder.pool.empty() || !holder.claim.empty()) continue;  // containers with requests of one name may be others
    auto& [first, pools] = pools_of[holder_name(holder)];
    if (first == nullptr) first = &holder;
    pools.insert(holder.pool);
  }
  for (const auto& [name, container] : pools_of) {
    const auto& [first, pools] = container;
    if (pools.size() < 2) continue;
    add({&kube::kMpsTwoPools, "tenant.pools", *first, "",
         fmt::format("it holds slots of {} MPS pools ({}), and a CUDA process can use one of them only: ask for slots "
                     "of one GPU, or have the operator join the GPUs (split: span)",
                     pools.size(), fmt::join(pools, ", "))});
  }
}

}  // namespace tranche::node
