// The MIG manager as a part of `tranche node`: its inputs from the node and its effects on it.
#include <algorithm>

#include "config/live/driver_settings.h"
#include "node/node_parts.h"
#include "plan/slot_id.h"

namespace tranche::agent {

void NodeProgram::open_mig() {
  if (!options_.mig.enabled) return;
  MigManager::Callbacks callbacks;
  callbacks.driver = [this] { return driver_settings_; };
  callbacks.ask_use = [this] { holdings_->ask(); };
  callbacks.changed = [this] { step({.offer = true}); };
  callbacks.rescan = [this] {
    if (nvml_) nvml_->rescan();
  };
  callbacks.driver_is_ours = [this](bool open) {
    if (open) return open_driver();
    nvml_.reset();  // a GPU with an open handle cannot be reset
  };
  callbacks.emit_on_node = [this](const auto& reason, const auto& message) { cluster_->emit_on_node(reason, message); };
  callbacks.emit_on_pod = [this](const Evictions::Pod& pod, const auto& reason, const auto& message) {
    cluster_->emit(kube::ObjectRef::pod(pod.pod_namespace, pod.name, pod.uid), reason, message);
  };
  callbacks.uid_of = [this](const MigUser& user) {
    const auto* pod = cluster_->pods().find(user.pod_namespace, user.pod);
    return pod == nullptr ? std::string() : pod->uid;
  };
  driver_settings_ = driver_settings(config_.view().config.flags, options_.driver_root_here, options_.system_root);
  MigSettings settings{options_.mig, options_.node_name, options_.run_dir + "/mig", {}};
  settings.environment.insert(options_.environment.begin(), options_.environment.end());
  mig_ = std::make_unique<MigManager>(*loop_, *worker_, *link_, std::move(settings), std::move(callbacks));
}

// By kubelet's list and by our answers since; in doubt a device is held (grants/ledger.h).
MigUse NodeProgram::mig_use(bool kubelet_answered) const {
  MigUse use;
  use.asked = kubelet_answered && !inputs_.holdings_problem.empty() ? loop_->now() : holdings_->answer_of();
  if (!change_.unguarded()) use.unknown = ledger_.unknown();
  for (const auto& held : ledger_.held()) {
    MigUser user;
    for (const auto& holding : inputs_.holdings) {
      const bool same = holding.resource == held.resource && std::ranges::any_of(holding.slots, [&](const auto& slot) {
                          return std::ranges::find(held.slots, slot) != held.slots.end();
                        });
      if (same) user = {holding.pod_namespace, holding.pod, holding.container};
    }
    for (const auto& slot : held.slots) {
      auto& users = use.users[std::string(plan::device_of(slot))];
      if (std::ranges::find(users, user) == users.end()) users.push_back(user);
    }
  }
  if (claims_)
    for (const auto& [uid, claim] : claims_->prepared())
      for (const auto& part : claim.parts)
        if (part.kind != dra::Kind::kMonitor)
          use.users[part.gpu_uuid].push_back({claim.name.claim_namespace, claim.pod, part.request});
  return use;
}

}  // namespace tranche::agent
