#include "node/grants/held_times.h"

#include <algorithm>

#include "node/observe/tenant_metrics.h"

namespace tranche::node {
namespace {

// Of a device that is no longer planned, the share stays what it was.
double share_of(const TenantRow& row, const plan::Plan& plan, double before) {
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices)
      if (device.uuid == row.device && device.slots > 0)
        return std::min(1.0, static_cast<double>(row.slots) / device.slots);
  return before;
}

}  // namespace

HeldTime HeldTime::until(MonoTime now) const {
  HeldTime later = *this;
  const double passed = std::chrono::duration<double>(now - at).count();
  later.at = now;
  later.seconds += passed;
  later.share_seconds += passed * share;
  return later;
}

TenantKey key_of(const TenantRow& row) {
  const auto text = [](std::string_view view) { return std::string(view); };
  return {text(row.pod_namespace), text(row.pod), row.container, text(row.device), text(row.resource)};
}

void keep_held_times(HeldTimes& times, const std::vector<TenantRow>& rows, const plan::Plan& plan, MonoTime now) {
  HeldTimes kept;
  for (const auto& row : rows) {
    const auto key = key_of(row);
    const auto before = times.find(key);
    HeldTime& held = kept[key];
    if (before == times.end()) {
      held.at = now;
    } else {
      held = before->second.until(now);
    }
    held.share = share_of(row, plan, held.share);
  }
  times = std::move(kept);
}

}  // namespace tranche::node
