#include "node/gpu/gpu_health.h"

#include <algorithm>

#include "base/text.h"
#include "config/document/amounts.h"
#include "gpu/inventory/inventory.h"
#include "os/log/log.h"

namespace tranche::node {
namespace {

// By planned device, because under WSL and on Tegra no GPU has the device's name.
void put_on_all(const plan::Plan& plan, const std::string& why, std::map<std::string, gpu::Unhealthy>& faults) {
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices)
      faults.insert_or_assign(device.uuid,
                              gpu::Unhealthy{gpu::Cause::kDriver, "the driver does not answer any more: " + why});
}

}  // namespace

std::vector<ConditionChange> HealthReport::update(const Conditions& conditions, MonoTime now) {
  std::vector<ConditionChange> changes;
  std::erase_if(unhealthy, [&](const auto& entry) { return !conditions.contains(entry.first); });
  for (const auto& [device, condition] : conditions) {
    const auto at = unhealthy.find(device);
    if (!condition) {
      if (at == unhealthy.end()) continue;
      changes.push_back({ConditionChange::What::kRecovered, device, at->second.what, now - at->second.since});
      unhealthy.erase(at);
    } else if (at == unhealthy.end()) {
      changes.push_back({ConditionChange::What::kFell, device, *condition, Duration{}});
      unhealthy[device] = {*condition, now};
      ++falls[condition->cause];
    } else {
      if (at->second.what.cause != condition->cause)
        changes.push_back({ConditionChange::What::kOtherCause, device, *condition, now - at->second.since});
      at->second.what = *condition;
    }
  }
  return changes;
}

GpuHealth::GpuHealth(const config::Environment& environment, gpu::HealthSettings settings) : ledger_(settings) {
  report_.quiet_period = settings.quiet_period;
  checks_ = gpu::parse_health_checks(config::variable(environment, gpu::kDisableVariable),
                                     config::variable(environment, gpu::kEnableVariable), report_.problems);
  if (checks_.off()) report_.off = "health checks are disabled by " + std::string(gpu::kDisableVariable);
}

void GpuHealth::log_settings() const {
  for (const auto& problem : report_.problems) log::warning("health.problem", {{"text", to_string(problem)}});
  if (off()) {
    log::warning("health.off", {{"why", report_.off}, {"left", "a GPU that is lost is still noticed"}});
    return;
  }
  log::info("health.on", {{"quiet_period", config::render_duration(report_.quiet_period)},
                          {"disabled", gpu::to_string(checks_.disabled)},
                          {"enabled", gpu::to_string(checks_.enabled)}});
}

void GpuHealth::on_xid(const gpu::GpuEvent& event, const gpu::Inventory& inventory, MonoTime now) {
  const auto cls = gpu::class_of(checks_, event.xid);
  const auto scope = gpu::scope_of(inventory, event.gpu_uuid, event.gpu_instance, event.compute_instance);
  const std::string named = event.gpu_uuid.empty() ? "unknown" : event.gpu_uuid;
  ++report_.xids[{scope.guessed || scope.targets.empty() ? named : scope.targets.front().gpu, event.xid}];
  for (const auto& target : scope.targets) ledger_.fault(target, event.xid, cls, scope.guessed, now);
  const auto* rule = gpu::find_xid(event.xid);
  log::warning("gpu.xid", {{"gpu", named},
                           {"xid", event.xid},
                           {"class", std::string(gpu::to_string(cls))},
                           {"meaning", rule == nullptr ? "not known" : std::string(rule->meaning)},
                           {"devices", join(scope.targets, ",", &gpu::FaultTarget::uuid)}});
  if (!scope.unattributed.empty()) log::warning("gpu.xid_of_nobody", {{"xid", event.xid}, {"why", scope.unattributed}});
}

bool GpuHealth::on_event(const gpu::GpuEvent& event, const gpu::Inventory& inventory, MonoTime now) {
  using What = gpu::GpuEvent::What;
  const std::string& gpu = event.gpu_uuid;
  switch (event.what) {
    case What::kXid:
      on_xid(event, inventory, now);
      return !off();
    case What::kDemand:
      return !off();
    case What::kLost:
      log::error("gpu.lost", {{"gpu", gpu}, {"why", event.why}});
      ledger_.lost(gpu, now);
      return false;
    case What::kBack:
      log::info("gpu.back", {{"gpu", gpu}});
      ledger_.back(gpu, now);
      return !off();
    case What::kUnwatched:
      log::warning("gpu.unwatched", {{"gpu", gpu}, {"why", event.why}});
      ledger_.unwatched(gpu, event.why);
      return false;
    case What::kWatched:
      log::info("gpu.watched", {{"gpu", gpu}});
      ledger_.watched(gpu);
      return false;
    case What::kUnsupported:
      log::warning("gpu.unsupported", {{"gpu", gpu}, {"why", event.why}, {"left", "its faults are not seen"}});
      return false;
    case What::kSilent:
      log::error("driver.silent", {{"why", event.why}});
      silent_ = event.why;
      return false;
    case What::kAnswering:
      log::info("driver.answering");
      silent_.clear();
      return !off();
  }
  return false;
}

void GpuHealth::on_inventory(const gpu::Inventory& inventory, std::vector<std::string> missing, MonoTime now) {
  ledger_.keep_only(inventory);
  for (const auto& uuid : missing_)
    if (std::ranges::find(missing, uuid) == missing.end()) ledger_.back(uuid, now);
  missing_ = std::move(missing);
}

void GpuHealth::on_use(const std::vector<gpu::GpuUse>& use, MonoTime now) {
  for (const auto& gpu : use) ledger_.answered(gpu.uuid, off() ? std::nullopt : gpu.demand, now);
}

plan::Faults GpuHealth::judge(const plan::Plan& plan, const gpu::Inventory& inventory,
                              const std::string& driver_problem, std::map<std::string, gpu::Unhealthy> others,
                              std::map<std::string, std::string> pools, MonoTime now) {
  plan::Faults all{ledger_.faults(), std::move(pools)};
  auto& faults = all.devices;
  for (const auto& uuid : missing_) {
    if (const auto at = faults.find(uuid); at != faults.end() && at->second.cause == gpu::Cause::kLost) continue;
    faults[uuid] = {gpu::Cause::kLost,
                    "the driver does not list this GPU any more; it takes pods again when it is back: reset it or "
                    "reboot the node"};
  }
  faults.merge(others);
  if (const auto& why = driver_problem.empty() ? silent_ : driver_problem; !why.empty()) put_on_all(plan, why, faults);
  for (const auto& gpu : inventory.gpus) {
    if (off()) continue;
    for (const auto& mig : gpu.mig_devices) {
      if (gpu::is_placed(mig)) continue;
      faults.try_emplace(mig.uuid, gpu::Unhealthy{gpu::Cause::kUnwatched,
                                                  "faults of this MIG device would not be seen: the driver does "
                                                  "not say which GPU and compute instance it is"});
    }
  }
  Conditions conditions;
  for (const auto& resource : plan.resources)
    for (const auto& device : resource.devices) conditions[device.uuid] = plan::fault_of(device, all);
  changes_ = report_.update(conditions, now);
  return all;
}

}  // namespace tranche::node
