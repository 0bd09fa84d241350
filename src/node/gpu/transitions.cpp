#include "node/gpu/transitions.h"

namespace tranche::node {

Conditions conditions_of(const plan::Plan& plan, const std::map<std::string, gpu::Unhealthy>& faults,
                         const std::map<std::string, std::string>& pools) {
  Conditions conditions;
  for (const auto& resource : plan.resources) {
    for (const auto& device : resource.devices) {
      auto& condition = conditions[device.uuid];
      if (auto at = faults.find(device.uuid); at != faults.end() || (at = faults.find(device.gpu_uuid)) != faults.end())
        condition = at->second;
      else if (const auto pool = pools.find(device.pool); !device.pool.empty() && pool != pools.end())
        condition = gpu::Unhealthy{gpu::Cause::kPool, pool->second};
    }
  }
  return conditions;
}

std::vector<ConditionChange> Transitions::update(const Conditions& conditions, MonoTime now) {
  std::vector<ConditionChange> changes;
  std::erase_if(unhealthy_, [&](const auto& entry) { return !conditions.contains(entry.first); });
  for (const auto& [device, condition] : conditions) {
    const auto at = unhealthy_.find(device);
    if (!condition) {
      if (at == unhealthy_.end()) continue;
      changes.push_back({ConditionChange::What::kRecovered, device, at->second.what, now - at->second.since});
      unhealthy_.erase(at);
    } else if (at == unhealthy_.end()) {
      changes.push_back({ConditionChange::What::kFell, device, *condition, Duration{}});
      unhealthy_[device] = {*condition, now};
      ++falls_[condition->cause];
    } else {
      if (at->second.what.cause != condition->cause)
        changes.push_back({ConditionChange::What::kOtherCause, device, *condition, now - at->second.since});
      at->second.what = *condition;
    }
  }
  return changes;
}

}  // namespace tranche::node
