#include "gpu/health/scope.h"

#include "base/text.h"

namespace tranche::health {
namespace {

using inventory::kNoInstance;

Scope of_instances(const inventory::Gpu& gpu, std::uint32_t gi, std::uint32_t ci) {
  Scope scope;
  for (const auto& mig : gpu.mig_devices) {
    if (mig.gpu_instance == gi && (ci == kNoInstance || mig.compute_instance == ci))
      scope.targets.push_back({mig.uuid, gpu.uuid});
  }
  if (scope.targets.empty())
    scope.unattributed = "GPU " + gpu.uuid + " has no MIG device in GPU instance " + std::to_string(gi) +
                         (ci == kNoInstance ? "" : ", compute instance " + std::to_string(ci));
  return scope;
}

}  // namespace

Scope scope_of(const inventory::Inventory& inventory, std::string_view uuid, std::uint32_t gpu_instance,
               std::uint32_t compute_instance) {
  Scope scope;
  if (uuid.empty()) {
    scope.guessed = true;
    for (const auto& gpu : inventory.gpus) scope.targets.push_back({gpu.uuid, gpu.uuid});
    if (scope.targets.empty()) scope.unattributed = "no GPU is known";
    return scope;
  }
  if (const auto* gpu = find_gpu(inventory, uuid)) {
    // Without MIG there are no instances to distinguish, whatever the event names.
    if (gpu_instance != kNoInstance && !gpu->mig_devices.empty())
      return of_instances(*gpu, gpu_instance, compute_instance);
    scope.targets.push_back({gpu->uuid, gpu->uuid});
    return scope;
  }
  for (const auto& gpu : inventory.gpus) {
    for (const auto& mig : gpu.mig_devices) {
      if (mig.uuid != uuid) continue;
      scope.targets.push_back({mig.uuid, gpu.uuid});
      return scope;
    }
  }
  if (const auto named = inventory::parse_legacy_mig_uuid(uuid)) {
    if (const auto* gpu = find_gpu(inventory, named->gpu_uuid))
      return of_instances(*gpu, named->gpu_instance, named->compute_instance);
  }
  scope.unattributed = in_quotes(uuid) + " is no GPU or MIG device of this node";
  return scope;
}

}  // namespace tranche::health
