#include "gpu/live/node_faults.h"

#include "plan/stale.h"

namespace tranche::agent {

std::map<std::string, health::Unhealthy> node_faults(const NodeView& node) {
  std::map<std::string, health::Unhealthy> faults;
  const auto& [in, decision] = node;
  if (!in.inventory) return faults;
  for (auto& [uuid, why] : plan::stale_devices(decision.plan, *in.inventory, in.config.config.flags.mig_strategy))
    faults.emplace(uuid, health::Unhealthy{health::Cause::kLost, std::move(why)});
  if (in.node_block.empty()) return faults;
  for (const auto& resource : decision.plan.resources)
    for (const auto& device : resource.devices)
      faults.try_emplace(device.uuid, health::Unhealthy{health::Cause::kNode, in.node_block});
  return faults;
}

}  // namespace tranche::agent
