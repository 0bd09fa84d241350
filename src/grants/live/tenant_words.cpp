#include "grants/live/tenant_words.h"

#include <algorithm>

namespace tranche::agent {
namespace {

// Of all grants of the container: a process has one percentage for all its devices.
mps::TenantWorth worth_of(const std::vector<Holder>& holders, const std::string& pod_namespace, const std::string& pod,
                          const std::string& container) {
  mps::TenantWorth worth;
  for (const auto& holder : holders) {
    if (holder.grant.empty() || holder.pod_namespace != pod_namespace || holder.pod != pod ||
        holder.container != container)
      continue;
    for (const auto& device : holder.devices) {
      worth.memory.emplace_back(device.uuid, device.limits.memory);
      const Percent own = device.limits.threads;
      if (own.hundredths > 0) worth.threads = worth.threads.hundredths == 0 ? own : std::min(worth.threads, own);
    }
  }
  return worth;
}

}  // namespace

void TenantWords::pods(const kube::PodChanges& changes) {
  for (const auto& [what, pod] : changes) {
    const std::pair key{pod.pod_namespace, pod.name};
    const bool over = what == kube::PodChange::What::kGone || what == kube::PodChange::What::kEnded;
    if (!over && !pod.mps_words.empty()) {
      pods_.insert_or_assign(key, Pod{pod.uid, pod.mps_words});
      continue;
    }
    pods_.erase(key);
    std::erase_if(told_, [&](const auto& told) { return std::get<0>(told) == pod.uid; });
  }
}

std::vector<ToldWords> TenantWords::look(const std::vector<Holder>& holders) {
  std::vector<ToldWords> news;
  for (const auto& [name, pod] : pods_) {
    for (const auto& words : pod.words) {
      const auto worth = worth_of(holders, name.first, name.second, words.container);
      if (worth.memory.empty()) continue;
      for (auto& remark : mps::remarks_on({words.threads, words.memory}, worth)) {
        if (!told_.emplace(pod.uid, words.container, remark.message).second) continue;
        news.push_back({kube::ObjectRef::pod(name.first, name.second, pod.uid), words.container, std::move(remark)});
      }
    }
  }
  return news;
}

}  // namespace tranche::agent
