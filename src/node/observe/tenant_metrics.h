#pragma once
// The figures of each tenant as metrics: who holds what by kubelet's list, its limits by the grants, its use by the
// guard. One row for each container and device, whatever number of slots and grants the container holds. Pure.
#include <cstdint>
#include <map>
#include <optional>

#include "base/text.h"
#include "guard/figures.h"
#include "node/snapshot.h"
#include "observe/metrics/page.h"

namespace tranche::node {

// Views into the decision and the figures.
struct TenantRow {
  std::uint32_t slots = 0;
  std::optional<Bytes> memory_limit;      // absent: not limited, or not known
  std::optional<Percent> thread_limit;    // the same
  const guard::Figure* figure = nullptr;  // nullptr: the guard does not see it, as without MPS
  const HeldTime* held = nullptr;
};
using TenantRows = std::map<TenantKey, TenantRow>;
TenantRows tenant_rows(const Decision& decision, const guard::Figures& figures);

// Seconds that tenants have held their shares, and seconds times the share of the device. Counted from kubelet's lists,
// so the beginning and the end of a grant are about a second late; in memory, so that they begin at 0 with the agent. A
// tenant that kubelet lists no more is forgotten. `now` never goes back.
void keep_held_times(HeldTimes& times, const TenantRows& rows, const plan::Plan& plan, MonoTime now);

LongText tenant_metrics(const Snapshot& snapshot, const guard::Figures& figures, MonoTime now);

}  // namespace tranche::node
