// MIG as a part of `tranche node`. The MIG manager: its inputs from the node and its effects on it. Partitions on
// demand
// (`dra.partitions: onDemand`): how the GPUs are partitioned, and which of their MIG instances belong to claims.
#include <algorithm>

#include "node/node_parts.h"

namespace tranche::node {
namespace {

// One manager for the instances of a node: MIG instances as a label wants them are not a claim's to make and destroy.
std::string why_not_on_demand(const mig::MigReport& manager) {
  if (manager.reason == "OtherManager") return manager.message;
  if (manager.config.empty()) return {};
  return "the MIG manager partitions the GPUs of this node by the configuration " + manager.config +
         "; remove the label " + mig::kMigConfigLabel +
         " of the node and the manager's default to have partitions on demand";
}

mig::WholeInstance instance_of(const mig::GpuInstance& instance, const std::vector<mig::Profile>& profiles) {
  const auto* profile = mig::find_profile(profiles, instance.profile_id);
  return {instance.profile_id, profile == nullptr ? 0 : profile->slices, instance.placement};
}

}  // namespace

void NodeProgram::open_mig() {
  if (!options_.mig.enabled) return;
  mig::MigManager::Callbacks callbacks;
  callbacks.driver = [this] { return driver_settings_; };
  callbacks.ask_use = [this] { holdings_.ask(); };
  callbacks.changed = [this] { step({.offer = true}); };
  callbacks.rescan = [this] { nvml_.rescan(); };
  callbacks.driver_is_ours = [this](bool open) {
    if (open) return open_driver();
    nvml_.stop();  // a GPU with an open handle cannot be reset
  };
  callbacks.emit_on_node = [this](const auto& reason, const auto& message) { cluster_.emit_on_node(reason, message); };
  callbacks.emit_on_pod = [this](const mig::Holder& pod, const auto& reason, const auto& message) {
    cluster_.emit(kube::ObjectRef::pod(pod.pod_namespace, pod.pod, pod.uid), reason, message);
  };
  driver_settings_ = gpu::driver_settings(config_.view().config.flags, options_.driver_root_here, options_.system_root);
  mig::MigSettings settings{
      options_.mig, options_.node_name, {options_.environment.begin(), options_.environment.end()}};
  mig_ = std::make_unique<mig::MigManager>(loop_, worker_, link_, std::move(settings), std::move(callbacks));
}

// By kubelet's list and by our answers since; in doubt a device is held (grants/ledger.h).
mig::MigUse NodeProgram::mig_use(bool kubelet_answered) const {
  mig::MigUse use;
  use.asked = kubelet_answered && !inputs_.holdings_problem.empty() ? loop_.now() : inputs_.holdings_read;
  if (!change_.unguarded()) use.unknown = ledger_.unknown();
  for (const auto& held : ledger_.held()) {
    mig::Holder user = mig::pod_holder(held.pod_namespace, held.pod, held.container);
    if (const auto* pod = cluster_.pods().find(user.pod_namespace, user.pod)) user.uid = pod->uid;
    for (const auto& slot : held.slots) {
      auto& users = use.users[std::string(plan::device_of(slot))];
      if (std::ranges::find(users, user) == users.end()) users.push_back(user);
    }
  }
  for (const auto& [uid, claim] : claims_.prepared())
    for (const auto& part : claim.parts)
      if (part.kind != dra::Kind::kMonitor)
        use.users[part.gpu_uuid]
            .emplace_back(mig::pod_holder(claim.name.claim_namespace, claim.pod, part.request))
            .uid = claim.pod_uid;
  return use;
}

// Without GPUs to partition, the driver is not asked.
void NodeProgram::look_at_partitions() {
  if (inputs_.inventory && dra::any_for_partitions(inputs_.config.config, *inputs_.inventory)) partitions_.look();
}

dra::Partitionable NodeProgram::partitionable() const {
  dra::Partitionable all;
  if (!inputs_.inventory) return all;
  const bool wanted = dra::any_for_partitions(inputs_.config.config, *inputs_.inventory);
  if (wanted) {
    if (mig_) all.why_not = why_not_on_demand(mig_->report());
    // An agent that does not have the claims does not know whose the instances are.
    const bool ours = claims_.standing() == ClaimsStanding::kOurs;
    all.known = ours && partitions_.known() && !(mig_ && mig_->report().state == "starting");
    if (!partitions_.problem().empty() && partitions_.gpus().empty()) all.why_not = partitions_.problem();
    for (const auto& [uuid, gpu] : partitions_.gpus()) {
      if (!gpu.enabled) continue;
      auto& known = all.gpus[uuid];
      known.profiles = gpu.profiles;
      for (const auto& present : gpu.instances) known.foreign.push_back(instance_of(present, known.profiles));
    }
  }
  for (const auto& [uid, claim] : claims_.prepared()) {
    for (const auto& part : claim.parts) {
      if (!part.owns_its_place()) continue;
      (part.is_made() ? all.made : all.making).insert(part.gpu_uuid);
      if (const auto known = all.gpus.find(part.parent_uuid); known != all.gpus.end())
        std::erase_if(known->second.foreign, [&part](const mig::WholeInstance& present) {
          return present.profile_id == part.instance->profile_id && present.place == part.instance->place;
        });
    }
  }
  return all;
}

}  // namespace tranche::node
