#include "gpu/live/node_faults.h"

#include "plan/stale.h"

namespace tranche::agent {

std::map<std::string, health::Unhealthy> node_faults(const Snapshot& state, const std::string& missing) {
  std::map<std::string, health::Unhealthy> faults;
  if (!state.inventory) return faults;
  for (auto& [uuid, why] : plan::stale_devices(state.plan, *state.inventory, state.config.config.flags.mig_strategy))
    faults.emplace(uuid, health::Unhealthy{health::Cause::kLost, std::move(why)});
  if (missing.empty()) return faults;
  for (const auto& resource : state.plan.resources)
    for (const auto& device : resource.devices)
      faults.try_emplace(device.uuid, health::Unhealthy{health::Cause::kNode, missing});
  return faults;
}

}  // namespace tranche::agent
