#pragma once
// How long tenants have held their shares, for bills: seconds, and seconds times the share of the device. Counted from
// kubelet's lists, so the beginning and the end of a grant are about a second late; in memory, so that they begin at 0
// with the agent. A tenant that kubelet lists no more is forgotten. Pure: `now` is passed in and never goes back.
#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "plan/plan.h"

namespace tranche::node {

struct TenantRow;

struct HeldTime {
  MonoTime at{};             // the figures are as of then
  double share = 0;          // of the device's slots, since then
  double seconds = 0;        // with a slot of the device
  double share_seconds = 0;  // 1 = a second with all slots of the device
  HeldTime until(MonoTime now) const;
};
using TenantKey = std::array<std::string, 5>;  // namespace, pod, container, device, resource
TenantKey key_of(const TenantRow& row);
using HeldTimes = std::map<TenantKey, HeldTime>;

void keep_held_times(HeldTimes& times, const std::vector<TenantRow>& rows, const plan::Plan& plan, MonoTime now);

}  // namespace tranche::node
