#pragma once
// Every metric of ours, once: name, meaning, labels. docs/reference/metrics.md is the same table for people, and
// a test holds the two together. A metric that is not here cannot be put on a Page. Pure constants.
#include <array>
#include <cstddef>
#include <string_view>

namespace tranche::metrics {

inline constexpr std::size_t kMostLabels = 6;

struct Metric {
  std::string_view name;  // a counter's ends with "_total"; the others are gauges
  std::string_view help;
  std::array<std::string_view, kMostLabels> labels{};  // "" = no further ones

  constexpr std::size_t label_count() const {
    std::size_t count = 0;
    while (count < labels.size() && !labels[count].empty()) ++count;
    return count;
  }
};

// "gpu" is always a UUID, "resource" the advertised name, "pool" the id of an MPS pool.
inline constexpr std::array<std::string_view, kMostLabels> kTenant{"namespace", "pod", "container", "gpu", "resource"};
// In the order of the page.
inline constexpr auto kMetrics = std::to_array<Metric>({
    {"tranche_build_info", "Always 1; the label gives the version.", {"version"}},
    {"tranche_loop_age_seconds", "Time since the program's event loop last ran; above 2, it is stuck."},
    {"tranche_log_lines_dropped_total", "Log lines dropped because their reader was too slow."},
    {"tranche_mps_pages", "0 if tranche mps cannot serve its HTTP pages, 1 otherwise."},
    {"tranche_driver_ready", "1 if the driver library responds, 0 if not."},
    {"tranche_config_problems", "Problems in the newest configuration."},
    {"tranche_config_in_force",
     "1 for the configuration in effect: file, last-good (the newest was refused) or defaults.",
     {"state"}},
    {"tranche_change_waiting", "Steps of a configuration change that wait for slots to be released."},
    {"tranche_ready", "1 for the status and reason of the node condition TrancheReady.", {"status", "reason"}},
    {"tranche_mig_state",
     "1 for the MIG manager's current state: off, starting, idle, pending, success or failed.",
     {"state"}},
    {"tranche_mig_changes_total", "Changes of a GPU's MIG partitioning; result is done or failed.", {"result"}},
    {"tranche_mig_change_seconds", "Duration of the last successful change, from the request, with all waits."},
    {"tranche_mig_waits_for", "Pods and processes that a MIG change of the GPU waits for.", {"gpu"}},
    {"tranche_mig_evictions_total", "Pods that the MIG manager evicted."},
    {"tranche_mig_instances", "MIG GPU instances of the GPU.", {"gpu", "profile"}},
    {"tranche_gpu_info", "Always 1, for each GPU of the node.", {"gpu", "index", "name", "pci_bus_id", "driver"}},
    {"tranche_gpu_memory_bytes", "Total memory of the GPU.", {"gpu"}},
    {"tranche_gpu_memory_used_bytes", "Memory in use on the GPU, including the driver's own.", {"gpu"}},
    {"tranche_xid_events_total", "XID errors since the program started.", {"gpu", "xid"}},
    {"tranche_health_checks", "1 if GPU health checks are enabled, 0 if not."},
    {"tranche_devices_unhealthy",
     "Devices with unhealthy slots; cause is xid, reset, lost, unwatched, driver, node, pool, mig or claims.",
     {"cause"}},
    {"tranche_device_falls_total", "Transitions of a device to unhealthy, by first cause.", {"cause"}},
    {"tranche_slots", "Slots advertised to kubelet; health is healthy or unhealthy.", {"resource", "gpu", "health"}},
    {"tranche_slots_allocated", "Slots allocated to containers, as reported by kubelet.", {"resource", "gpu"}},
    {"tranche_grants_total", "Allocations of slots to containers.", {"resource"}},
    {"tranche_allocations_refused_total", "Refused requests for slots.", {"resource"}},
    {"tranche_registered", "1 if kubelet has registered the resource and keeps its stream.", {"resource"}},
    {"tranche_registrations_total", "Registrations with kubelet; increases when kubelet restarts.", {"resource"}},
    {"tranche_watchers",
     "Open ListAndWatch streams of kubelet; 0 while registered: kubelet gets no updates.",
     {"resource"}},
    {"tranche_pool_state", "1 for the current state of the MPS pool.", {"pool", "state"}},
    {"tranche_pool_restarts_total", "Restarts of the pool's MPS daemon.", {"pool"}},
    {"tranche_pool_clients", "CUDA processes connected to the pool.", {"pool"}},
    {"tranche_pool_clients_most", "Client capacity of the pool's MPS server.", {"pool"}},
    {"tranche_pool_clients_unprotected", "Clients whose death can end the pool's other clients.", {"pool"}},
    {"tranche_pool_clients_dead",
     "Clients that have exited and whose GPU memory is still in use, for some seconds.",
     {"pool"}},
    {"tranche_pool_servers", "MPS servers of the pool by reported status.", {"pool", "status"}},
    {"tranche_pool_faults_total",
     "Faults that affected clients; kind is fatal, exception (of a server) or unclean-exit (a client died with work in "
     "flight).",
     {"pool", "kind"}},
    {"tranche_pool_proofs_total", "Test CUDA starts through the pool's daemon.", {"pool", "result"}},
    {"tranche_pool_ended_total",
     "Clients, servers or daemons terminated because new CUDA programs did not start.",
     {"pool", "what"}},
    {"tranche_pool_limit_memory_bytes", "Memory limit of one client of the pool.", {"pool", "gpu"}},
    {"tranche_pool_limit_threads_percent", "Active thread percentage of one client of the pool.", {"pool", "gpu"}},
    {"tranche_guard_acts_total",
     "Actions of the guard; outcome is done, not-a-client, refused, timed-out or failed.",
     {"resource", "policy", "outcome"}},
    {"tranche_guard_foreign_processes", "Processes on a shared GPU that are not MPS clients.", {"gpu"}},
    {"tranche_guard_not_in_force", "Guarantees that the guard cannot enforce now; status lists them."},
    {"tranche_kube_requests_total",
     "Requests to the API server; verb is list, watch, create or patch; code is the HTTP status or error.",
     {"verb", "code"}},
    {"tranche_kube_watch_restarts_total", "Restarts of the pod watch; one in five to ten minutes is normal."},
    {"tranche_kube_events_dropped_total", "Kubernetes events that were dropped; status gives the last one."},
    // Measured for a scrape, by the driver's figures; absent where the driver gives none.
    {"tranche_gpu_sample_timestamp_seconds", "When the figures of the GPU were read, in Unix time.", {"gpu"}},
    {"tranche_gpu_utilization_ratio",
     "Share of the driver's last period in which any kernel ran; absent with MIG.",
     {"gpu"}},
    {"tranche_gpu_power_watts", "Power draw.", {"gpu"}},
    {"tranche_gpu_power_limit_watts", "Enforced power limit.", {"gpu"}},
    {"tranche_gpu_energy_joules_total", "Energy since the driver was loaded.", {"gpu"}},
    {"tranche_gpu_temperature_celsius", "Temperature of the GPU.", {"gpu"}},
    {"tranche_gpu_memory_temperature_celsius", "Temperature of the GPU's memory.", {"gpu"}},
    {"tranche_gpu_clock_hertz", "Clock frequency; clock is sm or memory.", {"gpu", "clock"}},
    {"tranche_gpu_throttle_reason", "1 if the reason reduces the clocks now, 0 if not.", {"gpu", "reason"}},
    {"tranche_gpu_ecc_errors_total",
     "ECC errors since the driver was loaded; kind is corrected or uncorrected.",
     {"gpu", "kind"}},
    {"tranche_gpu_graphics_active_ratio", "Share of time in which the graphics or compute engine had work.", {"gpu"}},
    {"tranche_gpu_sm_active_ratio", "Share of time with a resident warp, as a mean over the SMs.", {"gpu"}},
    {"tranche_gpu_sm_occupancy_ratio", "Resident warps relative to the maximum.", {"gpu"}},
    {"tranche_gpu_tensor_active_ratio", "Share of time in which a tensor pipe was active.", {"gpu"}},
    {"tranche_gpu_dram_active_ratio", "Share of time in which the memory interface moved data.", {"gpu"}},
    {"tranche_gpu_pcie_bytes_per_second",
     "PCIe traffic with headers; direction is sent or received.",
     {"gpu", "direction"}},
    {"tranche_gpu_nvlink_bytes_per_second",
     "NVLink traffic of all links; direction is sent or received.",
     {"gpu", "direction"}},
    {"tranche_mig_memory_used_bytes", "Memory in use on the MIG device.", {"gpu", "mig"}},
    {"tranche_mig_graphics_active_ratio", "As tranche_gpu_graphics_active_ratio.", {"gpu", "mig"}},
    {"tranche_mig_sm_active_ratio", "As tranche_gpu_sm_active_ratio.", {"gpu", "mig"}},
    {"tranche_mig_sm_occupancy_ratio", "As tranche_gpu_sm_occupancy_ratio.", {"gpu", "mig"}},
    {"tranche_mig_tensor_active_ratio", "As tranche_gpu_tensor_active_ratio.", {"gpu", "mig"}},
    {"tranche_mig_dram_active_ratio", "As tranche_gpu_dram_active_ratio, of the GPU instance.", {"gpu", "mig"}},
    // By tenant, which is a container, and device: the figures of the guard, and nothing where there are none.
    {"tranche_tenant_slots", "Slots that the container holds.", kTenant},
    {"tranche_tenant_memory_limit_bytes", "Memory limit of the container.", kTenant},
    {"tranche_tenant_sm_limit_ratio", "Share of the device's SMs that a process may use.", kTenant},
    {"tranche_tenant_memory_used_bytes", "Memory that the container's processes hold, contexts included.", kTenant},
    {"tranche_tenant_memory_peak_bytes", "Largest sampled memory since the allocation or the agent's start.", kTenant},
    {"tranche_tenant_clients", "MPS clients of the container.", kTenant},
    {"tranche_tenant_over_limit_seconds_total", "Time in which the container held more memory than its limit.",
     kTenant},
    {"tranche_tenant_stops_total",
     "Processes that the guard ended; reason is memory-limit or outside-mps.",
     {"namespace", "pod", "container", "gpu", "resource", "reason"}},
    {"tranche_tenant_held_seconds_total", "Time that the container has held slots.", kTenant},
    {"tranche_tenant_share_held_seconds_total", "GPU-seconds held: the time, times the share of the device's slots.",
     kTenant},
});

// A metric of the table by its name, as in page.set("tranche_ready", …): a name that is not in it does not compile.
class MetricRef {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a name in a call is to become a metric.
  template <std::size_t N>
  consteval MetricRef(const char (&name)[N]) : at_(kMetrics.data()) {
    while (at_->name != std::string_view(name, N - 1)) ++at_;
  }
  constexpr MetricRef(const Metric& metric) : at_(&metric) {}
  // NOLINTEND(google-explicit-constructor)
  constexpr const Metric& operator*() const { return *at_; }
  constexpr const Metric* operator->() const { return at_; }

 private:
  const Metric* at_;
};

// What a pool's state prints as (mps::State, and mps::pool_word once its daemon serves), and so what
// tranche_pool_state counts.
inline constexpr std::array<std::string_view, 9> kPoolStates{
    "absent", "starting", "configuring", "proving", "serving", "wedged", "backing-off", "stopping", "given-up"};
inline constexpr std::array<std::string_view, 3> kServerStatuses{"INITIALIZING", "ACTIVE", "FAULT"};

}  // namespace tranche::metrics
