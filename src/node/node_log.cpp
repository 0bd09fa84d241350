#include "node/node_log.h"

#include <fmt/format.h>

#include "gpu/inventory/compare.h"
#include "os/log/log.h"

namespace tranche::node {

void log_no_driver(const Inputs& in) {
  if (in.inventory) {
    log::error("driver.gone", {{"why", in.driver_problem}});
  } else if (in.config.config.flags.fail_on_init_error) {
    log::error("driver.waiting", {{"why", in.driver_problem}});
  } else {
    log::info("driver.waiting", {{"why", in.driver_problem}, {"idle", true}});
  }
}

void log_inventory(const std::optional<gpu::Inventory>& before, const gpu::Inventory& scanned) {
  if (before) {
    for (const auto& change : gpu::changes(*before, scanned)) log::info("inventory.changed", {{"what", change}});
  } else {
    log::info("driver.ready", {{"version", scanned.driver_version},
                               {"gpus", scanned.gpus.size()},
                               {"platform", gpu::to_string(scanned.platform)}});
  }
  for (const auto& text : scanned.unreadable) log::warning("gpu.unreadable", {{"what", text}});
  for (const auto& text : scanned.doubts) log::warning("gpu.doubt", {{"what", text}});
}

void log_plan(const plan::Plan& plan) {
  for (const auto& resource : plan.resources) {
    log::info("plan.resource", {{"resource", resource.name},
                                {"slots", plan::slots_of(resource)},
                                {"devices", resource.devices.size()},
                                {"sharing", std::string(config::to_string(resource.sharing))}});
  }
  for (const auto& left : plan.left_out) log::warning("plan.left_out", {{"what", left.what}, {"why", left.why}});
  for (const auto& note : plan.notes) log::info("plan.note", {{"text", note}});
}

void log_change(const PlanChange::Moved& change) {
  for (const auto& step : change.steps)
    log::info(step.waits() ? "change.waits" : "change.step", {{"what", tranche::grants::to_string(step)}});
  if (change.done) log::info("change.done");
}

void log_health(const std::vector<ConditionChange>& changes) {
  for (const auto& change : changes) {
    const auto lasted = milliseconds_of(change.lasted);
    const std::string cause(gpu::to_string(change.condition.cause));
    switch (change.what) {
      case ConditionChange::What::kFell:
        log::warning("device.unhealthy", {{"device", change.device}, {"cause", cause}, {"why", change.condition.why}});
        break;
      case ConditionChange::What::kOtherCause:
        log::warning(
            "device.still_unhealthy",
            {{"device", change.device}, {"cause", cause}, {"why", change.condition.why}, {"lasted_ms", lasted}});
        break;
      case ConditionChange::What::kRecovered:
        log::info("device.healthy",
                  {{"device", change.device}, {"was", cause}, {"why", change.condition.why}, {"lasted_ms", lasted}});
        break;
    }
  }
}

void log_plugins(const std::vector<kubelet::PluginState>& before, const std::vector<kubelet::PluginState>& next) {
  for (const auto& plugin : next) {
    const auto found = std::ranges::find(before, plugin.resource, &kubelet::PluginState::resource);
    const kubelet::PluginState was = found == before.end() ? kubelet::PluginState{} : *found;
    if (!plugin.note.empty() && plugin.note != was.note)
      log::warning("plugin.took_over", {{"resource", plugin.resource}, {"what", plugin.note}});
    if (!plugin.problem.empty() && plugin.problem != was.problem)
      log::warning("plugin.problem", {{"resource", plugin.resource}, {"why", plugin.problem}});
    if (plugin.registered && !was.registered) log::info("plugin.registered", {{"resource", plugin.resource}});
  }
}

void log_pools(const mps::PoolReports& before, const mps::PoolReports& next, bool needed) {
  for (const auto& [id, pool] : next.pools) {
    const auto it = before.pools.find(id);
    if (it == before.pools.end() || it->second.state != pool.state)
      log::info("pool.state", {{"pool", id}, {"state", pool.state}, {"why", pool.reason}});
  }
  if (next.connected != before.connected && needed)
    log::info("mps.connection", {{"connected", next.connected}, {"why", next.problem}});
}

bool log_pods(const kube::PodChanges& changes, const std::vector<Holder>& holders) {
  using What = kube::PodChange::What;
  bool ended = false;
  for (const auto& [what, pod] : changes) {
    if (what == What::kNew || what == What::kChanged) continue;
    std::vector<std::string> grants;
    for (const auto& holder : holders)
      if (!holder.grant.empty() && holder.pod_namespace == pod.pod_namespace && holder.pod == pod.name)
        grants.push_back(holder.grant);
    std::ranges::sort(grants);
    const bool over = what == What::kGone || what == What::kEnded;
    ended = ended || over;
    if (grants.empty()) continue;
    log::info(over ? "pod.ended" : "pod.deleting", {{"pod", pod.pod_namespace + "/" + pod.name},
                                                    {"uid", pod.uid},
                                                    {"grants", fmt::format("{}", fmt::join(grants, ","))},
                                                    {"grace_s", pod.deletion_grace_seconds.value_or(-1)}});
  }
  return ended;
}

namespace {

// "GPU-…: 3 slots, 43131 MiB, 30 %, 40 SMs; …"; without values that are not limited.
std::string limits_text(const grants::Grant& grant) {
  std::vector<std::string> parts;
  for (const auto& device : grant.devices) {
    std::string part = fmt::format("{}: {} slots", device.uuid, device.slots);
    if (device.limits.memory.value > 0) part += fmt::format(", {} MiB", device.limits.memory.in_mib());
    if (device.limits.threads.hundredths > 0)
      part += fmt::format(", {} %, {} SMs", to_string(device.limits.threads), device.limits.sms);
    parts.push_back(std::move(part));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

void log_answered(const Answered& answered) {
  for (const auto& grant : answered.given) {
    log::info("grant.given", {{"grant", grant.id},
                              {"resource", grant.resource},
                              {"slots", fmt::format("{}", fmt::join(grant.slots, ","))},
                              {"pool", grant.pool},
                              {"limits", grant.pool.empty() ? "" : limits_text(grant)}});
  }
  for (const auto& [resource, error] : answered.refused)
    log::warning("grant.refused", {{"resource", resource}, {"why", error}});
}

void GrantLog::follow(const std::vector<Holder>& holders, MonoTime now) {
  std::map<std::string, Held> next;
  for (auto holder : holders) {
    if (holder.grant.empty()) holder.grant = grants::grant_id(holder.slots);
    const std::string key = holder.grant + " " + tenant_key(holder);
    if (auto before = held_.extract(key); !before.empty()) {
      next.insert(std::move(before));
      continue;
    }
    if (!next.try_emplace(key, holder, now).second) continue;
    log::info("grant.held", {{"grant", holder.grant},
                             {"k8s.namespace.name", holder.pod_namespace},
                             {"k8s.pod.name", holder.pod},
                             {"k8s.container.name", holder.container},
                             {"k8s.pod.uid", holder.pod_uid},
                             {"claim", holder.claim}});
  }
  for (const auto& [key, held] : held_)
    log::info("grant.ended", {{"grant", held.holder.grant},
                              {"k8s.namespace.name", held.holder.pod_namespace},
                              {"k8s.pod.name", held.holder.pod},
                              {"k8s.container.name", held.holder.container},
                              {"k8s.pod.uid", held.holder.pod_uid},
                              {"claim", held.holder.claim},
                              {"held_s", std::chrono::duration_cast<std::chrono::seconds>(now - held.since).count()}});
  held_ = std::move(next);
}

}  // namespace tranche::node
