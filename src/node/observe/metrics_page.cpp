#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/version.h"
#include "node/reports.h"
#include "observe/metrics/metric_names.h"

namespace tranche::node {
namespace {

void put_gpus(metrics::Page& page, const Snapshot& s) {
  page.set("tranche_driver_ready", s.inventory ? 1 : 0);
  if (!s.inventory) return;
  for (const auto& gpu : s.inventory->gpus) {
    page.set("tranche_gpu_info",
             {gpu.uuid, fmt::format("{}", gpu.index), gpu.name, gpu.pci_bus_id, s.inventory->driver_version}, 1);
    page.set("tranche_gpu_memory_bytes", {gpu.uuid}, gpu.memory);
  }
  for (const auto& [key, count] : s.health.xids)
    page.set("tranche_xid_events_total", {key.first, fmt::format("{}", key.second)}, count);
}

void put_config(metrics::Page& page, const Snapshot& s) {
  page.set("tranche_config_in_force",
           {s.config.last_good      ? "last-good"
            : s.config.path.empty() ? "defaults"
                                    : "file"},
           1);
  page.set("tranche_change_waiting", std::ranges::count_if(s.change, &grants::Step::waits));
  const auto condition = node_condition(s);
  page.set("tranche_ready", {condition.ready ? "True" : "False", condition.reason}, 1);
}

void put_mig(metrics::Page& page, const mig::MigReport& mig) {
  for (const char* state : mig::kMigStates) page.set("tranche_mig_state", {state}, mig.state == state ? 1 : 0);
  page.set("tranche_mig_changes_total", {"done"}, mig.changes);
  page.set("tranche_mig_changes_total", {"failed"}, mig.failures);
  page.set("tranche_mig_evictions_total", mig.evictions);
  if (mig.last_change) page.set("tranche_mig_change_seconds", std::chrono::duration<double>(*mig.last_change).count());
  for (const auto& gpu : mig.gpus) {
    page.set("tranche_mig_waits_for", {gpu.uuid}, gpu.waits_for.size());
    for (const auto& [profile, count] : gpu.instances) page.set("tranche_mig_instances", {gpu.uuid, profile}, count);
  }
}

void put_health(metrics::Page& page, const Snapshot& s) {
  page.set("tranche_health_checks", s.health.off.empty() ? 1 : 0);
  std::map<gpu::Cause, std::uint64_t> now;
  for (const auto& [device, condition] : s.health.unhealthy) ++now[condition.what.cause];
  for (const auto cause : gpu::kCauses) {
    page.set("tranche_devices_unhealthy", {gpu::to_string(cause)}, now[cause]);
    const auto falls = s.health.falls.find(cause);
    page.set("tranche_device_falls_total", {gpu::to_string(cause)}, falls == s.health.falls.end() ? 0 : falls->second);
  }
}

void put_slots(metrics::Page& page, const Snapshot& s) {
  for (const auto& list : s.advertised) {
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> healthy_and_not;
    for (const auto& slot : list.slots) {
      auto& counts = healthy_and_not[std::string(plan::device_of(slot.id))];
      ++(slot.healthy ? counts.first : counts.second);
    }
    for (const auto& [device, counts] : healthy_and_not) {
      page.set("tranche_slots", {list.resource, device, "healthy"}, counts.first);
      page.set("tranche_slots", {list.resource, device, "unhealthy"}, counts.second);
    }
  }
  std::map<std::pair<std::string, std::string>, std::uint64_t> held;
  for (const auto& holding : s.holdings)
    for (const auto& slot : holding.slots) ++held[{holding.resource, std::string(plan::device_of(slot))}];
  for (const auto& [key, count] : held) page.set("tranche_slots_allocated", {key.first, key.second}, count);
}

void put_kubelet(metrics::Page& page, const Snapshot& s) {
  for (const auto& plugin : s.plugins) {
    page.set("tranche_registered", {plugin.resource}, plugin.registered ? 1 : 0);
    page.set("tranche_registrations_total", {plugin.resource}, plugin.registrations);
    page.set("tranche_watchers", {plugin.resource}, plugin.watchers);
    page.set("tranche_grants_total", {plugin.resource}, plugin.allocations);
    page.set("tranche_allocations_refused_total", {plugin.resource}, plugin.refused);
  }
}

void put_pools(metrics::Page& page, const Snapshot& s) {
  for (const auto& [id, pool] : s.pools.pools) {
    page.set_pool_state(id, pool.state);
    page.set("tranche_pool_restarts_total", {id}, pool.restarts);
    for (const auto& [kind, count] : pool.faults_total) {
      page.set("tranche_pool_faults_total", {id, kind}, count);
    }
    page.set("tranche_pool_clients", {id}, pool.clients.size());
  }
  for (const auto& pool : s.plan.pools) {
    for (const auto& limit : pool.limits) {
      page.set("tranche_pool_limit_memory_bytes", {pool.id, limit.uuid}, limit.client.memory);
      page.set("tranche_pool_limit_threads_percent", {pool.id, limit.uuid}, limit.client.threads.value());
    }
  }
}

void put_guard(metrics::Page& page, const GuardReport& report) {
  for (const auto& [key, count] : report.counts) {
    const auto& [resource, policy, outcome] = key;
    page.set("tranche_guard_acts_total", {resource, policy, outcome}, count);
  }
  if (!report.off.empty()) return;
  std::map<std::string, std::uint64_t> foreign_processes;
  for (const auto& process : report.foreign_processes) ++foreign_processes[process.device];
  for (const auto& [device, count] : foreign_processes) page.set("tranche_guard_foreign_processes", {device}, count);
  page.set("tranche_guard_not_in_force", report.not_in_force.size());
}

void put_cluster(metrics::Page& page, const Snapshot& s) {
  if (s.cluster.server.empty()) return;
  for (const auto& [key, count] : s.cluster.requests)
    page.set("tranche_kube_requests_total", {key.first, key.second}, count);
  page.set("tranche_kube_watch_restarts_total", s.cluster.watch_restarts);
  page.set("tranche_kube_events_dropped_total", s.cluster.events.dropped);
}

}  // namespace

metrics::Page metrics_page(const Snapshot& snapshot) {
  metrics::Page page;
  page.set("tranche_build_info", {kVersion}, 1);
  page.set("tranche_config_problems", snapshot.config.problems.size() + snapshot.plan_problems.size());
  put_config(page, snapshot);
  if (snapshot.mig) put_mig(page, *snapshot.mig);
  put_gpus(page, snapshot);
  put_health(page, snapshot);
  put_slots(page, snapshot);
  put_kubelet(page, snapshot);
  put_pools(page, snapshot);
  if (snapshot.pools.connected) page.set("tranche_mps_pages", snapshot.pools.pages_problem.empty() ? 1 : 0);
  put_guard(page, snapshot.guard);
  put_cluster(page, snapshot);
  return page;
}

}  // namespace tranche::node
