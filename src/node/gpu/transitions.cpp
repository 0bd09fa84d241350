#include "node/gpu/transitions.h"

namespace tranche::node {

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
