// MIG partitions on demand (`dra.partitions: onDemand`) as a part of `tranche node`: how the GPUs are partitioned, and
// which of their MIG instances belong to claims.
#include <algorithm>

#include "node/node_parts.h"

namespace tranche::agent {
namespace {

// One manager for the instances of a node: MIG instances as a label wants them are not a claim's to make and destroy.
std::string why_not_on_demand(const MigReport& manager) {
  if (manager.reason == "OtherManager") return manager.message;
  if (manager.config.empty()) return {};
  return "the MIG manager partitions the GPUs of this node by the configuration " + manager.config +
         "; remove the label " + kMigConfigLabel +
         " of the node and the manager's default to have partitions on demand";
}

dra::Instance instance_of(const mig::GpuInstance& instance, const std::vector<mig::Profile>& profiles) {
  const auto* profile = mig::find_profile(profiles, instance.profile_id);
  return {instance.profile_id, profile == nullptr ? 0 : profile->slices, instance.placement};
}

}  // namespace

void NodeProgram::open_partitions() {
  MigPartitions::Callbacks callbacks;
  callbacks.driver = [this] { return driver_settings_; };
  callbacks.changed = [this] {
    if (phase_ != Phase::kEnding) step({.offer = true});
  };
  partitions_ = std::make_unique<MigPartitions>(*loop_, std::move(callbacks));
}

// Without GPUs to partition, the driver is not asked.
void NodeProgram::look_at_partitions() {
  if (partitions_ && inputs_.inventory && dra::any_for_partitions(inputs_.config.config, *inputs_.inventory))
    partitions_->look();
}

dra::Partitionable NodeProgram::partitionable() const {
  dra::Partitionable all;
  if (!partitions_ || !inputs_.inventory) return all;
  const bool wanted = dra::any_for_partitions(inputs_.config.config, *inputs_.inventory);
  if (wanted) {
    if (mig_) all.why_not = why_not_on_demand(mig_->report());
    // An agent that does not have the claims does not know whose the instances are.
    const bool ours = claims_ && claims_->standing() == ClaimsStanding::kOurs;
    all.known = ours && partitions_->known() && !(mig_ && mig_->report().state == "starting");
    if (!partitions_->problem().empty() && partitions_->gpus().empty()) all.why_not = partitions_->problem();
    for (const auto& [uuid, gpu] : partitions_->gpus()) {
      if (!gpu.enabled) continue;
      auto& known = all.gpus[uuid];
      known.profiles = gpu.profiles;
      for (const auto& present : gpu.instances) known.foreign.push_back(instance_of(present, known.profiles));
    }
  }
  if (!claims_) return all;
  for (const auto& [uid, claim] : claims_->prepared()) {
    for (const auto& part : claim.parts) {
      if (!part.owns_its_place()) continue;
      (part.is_made() ? all.made : all.making).insert(part.gpu_uuid);
      if (const auto known = all.gpus.find(part.parent_uuid); known != all.gpus.end())
        std::erase_if(known->second.foreign, [&part](const dra::Instance& present) {
          return present.profile_id == part.instance->profile_id && present.place == part.instance->place;
        });
    }
  }
  return all;
}

}  // namespace tranche::agent
