#pragma once
// Every metric of ours, once: name, type, labels, meaning. docs/reference/metrics.md is the same table for people, and
// a test holds the two together. A metric that is not here cannot be put on a Page. Pure constants.
#include <array>
#include <cstddef>
#include <string_view>

namespace tranche::metrics {

enum class Type { kGauge, kCounter };

inline constexpr std::size_t kMostLabels = 6;

struct Metric {
  std::string_view name;
  Type type = Type::kGauge;
  std::string_view help;
  std::array<std::string_view, kMostLabels> labels{};  // "" = no further ones

  constexpr std::size_t label_count() const {
    std::size_t count = 0;
    while (count < labels.size() && !labels[count].empty()) ++count;
    return count;
  }
};

// "gpu" is always a UUID, "resource" the advertised name, "pool" the id of an MPS pool.
inline constexpr Metric kBuildInfo{
    "tranche_build_info", Type::kGauge, "Always 1; the label gives the version.", {"version"}};
inline constexpr Metric kLoopAge{"tranche_loop_age_seconds", Type::kGauge,
                                 "Time since the program's event loop last ran; above 2, it is stuck."};
inline constexpr Metric kLogLinesDropped{"tranche_log_lines_dropped_total", Type::kCounter,
                                         "Log lines dropped because their reader was too slow."};
inline constexpr Metric kMpsPages{"tranche_mps_pages", Type::kGauge,
                                  "0 if tranche mps cannot serve its HTTP pages, 1 otherwise."};
inline constexpr Metric kDriverReady{"tranche_driver_ready", Type::kGauge,
                                     "1 if the driver library responds, 0 if not."};
inline constexpr Metric kConfigProblems{"tranche_config_problems", Type::kGauge,
                                        "Problems in the newest configuration."};

inline constexpr Metric kConfigInForce{
    "tranche_config_in_force",
    Type::kGauge,
    "1 for the configuration in effect: file, last-good (the newest was refused) or defaults.",
    {"state"}};
inline constexpr Metric kChangeWaiting{"tranche_change_waiting", Type::kGauge,
                                       "Steps of a configuration change that wait for slots to be released."};
inline constexpr Metric kReady{"tranche_ready",
                               Type::kGauge,
                               "1 for the status and reason of the node condition TrancheReady.",
                               {"status", "reason"}};

inline constexpr Metric kMigState{
    "tranche_mig_state",
    Type::kGauge,
    "1 for the MIG manager's current state: off, starting, idle, pending, success or failed.",
    {"state"}};
inline constexpr Metric kMigChanges{"tranche_mig_changes_total",
                                    Type::kCounter,
                                    "Changes of a GPU's MIG partitioning; result is done or failed.",
                                    {"result"}};
inline constexpr Metric kMigChangeSeconds{"tranche_mig_change_seconds", Type::kGauge,
                                          "Duration of the last successful change, from the request, with all waits."};
inline constexpr Metric kMigWaitsFor{
    "tranche_mig_waits_for", Type::kGauge, "Pods and processes that a MIG change of the GPU waits for.", {"gpu"}};
inline constexpr Metric kMigEvictions{"tranche_mig_evictions_total", Type::kCounter,
                                      "Pods that the MIG manager evicted."};
inline constexpr Metric kMigInstances{
    "tranche_mig_instances", Type::kGauge, "MIG GPU instances of the GPU.", {"gpu", "profile"}};

inline constexpr Metric kGpuInfo{"tranche_gpu_info",
                                 Type::kGauge,
                                 "Always 1, for each GPU of the node.",
                                 {"gpu", "index", "name", "pci_bus_id", "driver"}};
inline constexpr Metric kGpuMemory{"tranche_gpu_memory_bytes", Type::kGauge, "Total memory of the GPU.", {"gpu"}};
inline constexpr Metric kGpuMemoryUsed{
    "tranche_gpu_memory_used_bytes", Type::kGauge, "Memory in use on the GPU, including the driver's own.", {"gpu"}};
inline constexpr Metric kXidEvents{
    "tranche_xid_events_total", Type::kCounter, "XID errors since the program started.", {"gpu", "xid"}};

inline constexpr Metric kHealthChecks{"tranche_health_checks", Type::kGauge,
                                      "1 if GPU health checks are enabled, 0 if not."};
inline constexpr Metric kDevicesUnhealthy{
    "tranche_devices_unhealthy",
    Type::kGauge,
    "Devices with unhealthy slots; cause is xid, reset, lost, unwatched, driver, node, pool, mig or claims.",
    {"cause"}};
inline constexpr Metric kDeviceFalls{
    "tranche_device_falls_total", Type::kCounter, "Transitions of a device to unhealthy, by first cause.", {"cause"}};

inline constexpr Metric kSlots{"tranche_slots",
                               Type::kGauge,
                               "Slots advertised to kubelet; health is healthy or unhealthy.",
                               {"resource", "gpu", "health"}};
inline constexpr Metric kSlotsAllocated{"tranche_slots_allocated",
                                        Type::kGauge,
                                        "Slots allocated to containers, as reported by kubelet.",
                                        {"resource", "gpu"}};
inline constexpr Metric kGrants{
    "tranche_grants_total", Type::kCounter, "Allocations of slots to containers.", {"resource"}};
inline constexpr Metric kAllocationsRefused{
    "tranche_allocations_refused_total", Type::kCounter, "Refused requests for slots.", {"resource"}};
inline constexpr Metric kRegistered{
    "tranche_registered", Type::kGauge, "1 if the resource is registered with kubelet.", {"resource"}};
inline constexpr Metric kRegistrations{"tranche_registrations_total",
                                       Type::kCounter,
                                       "Registrations with kubelet; increases when kubelet restarts.",
                                       {"resource"}};
inline constexpr Metric kWatchers{"tranche_watchers",
                                  Type::kGauge,
                                  "Open ListAndWatch streams of kubelet; 0 while registered: kubelet gets no updates.",
                                  {"resource"}};

inline constexpr Metric kPoolState{
    "tranche_pool_state", Type::kGauge, "1 for the current state of the MPS pool.", {"pool", "state"}};
inline constexpr Metric kPoolRestarts{
    "tranche_pool_restarts_total", Type::kCounter, "Restarts of the pool's MPS daemon.", {"pool"}};
inline constexpr Metric kPoolClients{
    "tranche_pool_clients", Type::kGauge, "CUDA processes connected to the pool.", {"pool"}};
inline constexpr Metric kPoolClientsMost{
    "tranche_pool_clients_most", Type::kGauge, "Client capacity of the pool's MPS server.", {"pool"}};
inline constexpr Metric kPoolUnprotected{"tranche_pool_clients_unprotected",
                                         Type::kGauge,
                                         "Clients whose death can end the pool's other clients.",
                                         {"pool"}};
inline constexpr Metric kPoolDead{"tranche_pool_clients_dead",
                                  Type::kGauge,
                                  "Clients that have exited and whose GPU memory is still in use, for some seconds.",
                                  {"pool"}};
inline constexpr Metric kPoolServers{
    "tranche_pool_servers", Type::kGauge, "MPS servers of the pool by reported status.", {"pool", "status"}};
inline constexpr Metric kPoolFaults{"tranche_pool_faults_total",
                                    Type::kCounter,
                                    "Faults that affected clients; kind is fatal, exception (of a server) or "
                                    "unclean-exit (a client died with work in flight).",
                                    {"pool", "kind"}};
inline constexpr Metric kPoolProofs{
    "tranche_pool_proofs_total", Type::kCounter, "Test CUDA starts through the pool's daemon.", {"pool", "result"}};
inline constexpr Metric kPoolEnded{"tranche_pool_ended_total",
                                   Type::kCounter,
                                   "Clients, servers or daemons terminated because new CUDA programs did not start.",
                                   {"pool", "what"}};
inline constexpr Metric kPoolLimitMemory{
    "tranche_pool_limit_memory_bytes", Type::kGauge, "Memory limit of one client of the pool.", {"pool", "gpu"}};
inline constexpr Metric kPoolLimitThreads{"tranche_pool_limit_threads_percent",
                                          Type::kGauge,
                                          "Active thread percentage of one client of the pool.",
                                          {"pool", "gpu"}};

inline constexpr Metric kGuardActs{"tranche_guard_acts_total",
                                   Type::kCounter,
                                   "Actions of the guard; outcome is done, not-a-client, refused, timed-out or failed.",
                                   {"resource", "policy", "outcome"}};
inline constexpr Metric kGuardForeignProcesses{
    "tranche_guard_foreign_processes", Type::kGauge, "Processes on a shared GPU that are not MPS clients.", {"gpu"}};
inline constexpr Metric kGuardNotInForce{"tranche_guard_not_in_force", Type::kGauge,
                                         "Guarantees that the guard cannot enforce now; status lists them."};
// Measured for a scrape, by the driver's figures; absent where the driver gives none.
inline constexpr Metric kGpuSampled{"tranche_gpu_sample_timestamp_seconds",
                                    Type::kGauge,
                                    "When the figures of the GPU were read, in Unix time.",
                                    {"gpu"}};
inline constexpr Metric kGpuUtilization{"tranche_gpu_utilization_ratio",
                                        Type::kGauge,
                                        "Share of the driver's last period in which any kernel ran; absent with MIG.",
                                        {"gpu"}};
inline constexpr Metric kGpuPower{"tranche_gpu_power_watts", Type::kGauge, "Power draw.", {"gpu"}};
inline constexpr Metric kGpuPowerLimit{"tranche_gpu_power_limit_watts", Type::kGauge, "Enforced power limit.", {"gpu"}};
inline constexpr Metric kGpuEnergy{
    "tranche_gpu_energy_joules_total", Type::kCounter, "Energy since the driver was loaded.", {"gpu"}};
inline constexpr Metric kGpuTemperature{
    "tranche_gpu_temperature_celsius", Type::kGauge, "Temperature of the GPU.", {"gpu"}};
inline constexpr Metric kGpuMemoryTemperature{
    "tranche_gpu_memory_temperature_celsius", Type::kGauge, "Temperature of the GPU's memory.", {"gpu"}};
inline constexpr Metric kGpuClock{
    "tranche_gpu_clock_hertz", Type::kGauge, "Clock frequency; clock is sm or memory.", {"gpu", "clock"}};
inline constexpr Metric kGpuThrottle{"tranche_gpu_throttle_reason",
                                     Type::kGauge,
                                     "1 if the reason reduces the clocks now, 0 if not.",
                                     {"gpu", "reason"}};
inline constexpr Metric kGpuEcc{"tranche_gpu_ecc_errors_total",
                                Type::kCounter,
                                "ECC errors since the driver was loaded; kind is corrected or uncorrected.",
                                {"gpu", "kind"}};
inline constexpr Metric kGpuGraphics{"tranche_gpu_graphics_active_ratio",
                                     Type::kGauge,
                                     "Share of time in which the graphics or compute engine had work.",
                                     {"gpu"}};
inline constexpr Metric kGpuSm{"tranche_gpu_sm_active_ratio",
                               Type::kGauge,
                               "Share of time with a resident warp, as a mean over the SMs.",
                               {"gpu"}};
inline constexpr Metric kGpuOccupancy{
    "tranche_gpu_sm_occupancy_ratio", Type::kGauge, "Resident warps relative to the maximum.", {"gpu"}};
inline constexpr Metric kGpuTensor{
    "tranche_gpu_tensor_active_ratio", Type::kGauge, "Share of time in which a tensor pipe was active.", {"gpu"}};
inline constexpr Metric kGpuDram{
    "tranche_gpu_dram_active_ratio", Type::kGauge, "Share of time in which the memory interface moved data.", {"gpu"}};
inline constexpr Metric kGpuPcie{"tranche_gpu_pcie_bytes_per_second",
                                 Type::kGauge,
                                 "PCIe traffic with headers; direction is sent or received.",
                                 {"gpu", "direction"}};
inline constexpr Metric kGpuNvlink{"tranche_gpu_nvlink_bytes_per_second",
                                   Type::kGauge,
                                   "NVLink traffic of all links; direction is sent or received.",
                                   {"gpu", "direction"}};
inline constexpr Metric kMigMemoryUsed{
    "tranche_mig_memory_used_bytes", Type::kGauge, "Memory in use on the MIG device.", {"gpu", "mig"}};
inline constexpr Metric kMigGraphics{
    "tranche_mig_graphics_active_ratio", Type::kGauge, "As tranche_gpu_graphics_active_ratio.", {"gpu", "mig"}};
inline constexpr Metric kMigSm{
    "tranche_mig_sm_active_ratio", Type::kGauge, "As tranche_gpu_sm_active_ratio.", {"gpu", "mig"}};
inline constexpr Metric kMigOccupancy{
    "tranche_mig_sm_occupancy_ratio", Type::kGauge, "As tranche_gpu_sm_occupancy_ratio.", {"gpu", "mig"}};
inline constexpr Metric kMigTensor{
    "tranche_mig_tensor_active_ratio", Type::kGauge, "As tranche_gpu_tensor_active_ratio.", {"gpu", "mig"}};
inline constexpr Metric kMigDram{"tranche_mig_dram_active_ratio",
                                 Type::kGauge,
                                 "As tranche_gpu_dram_active_ratio, of the GPU instance.",
                                 {"gpu", "mig"}};

// By tenant, which is a container, and device: the figures of the guard, and nothing where there are none.
inline constexpr Metric kTenantSlots{"tranche_tenant_slots",
                                     Type::kGauge,
                                     "Slots that the container holds.",
                                     {"namespace", "pod", "container", "gpu", "resource"}};
inline constexpr Metric kTenantMemoryLimit{"tranche_tenant_memory_limit_bytes",
                                           Type::kGauge,
                                           "Memory limit of the container.",
                                           {"namespace", "pod", "container", "gpu", "resource"}};
inline constexpr Metric kTenantSmLimit{"tranche_tenant_sm_limit_ratio",
                                       Type::kGauge,
                                       "Share of the device's SMs that a process may use.",
                                       {"namespace", "pod", "container", "gpu", "resource"}};
inline constexpr Metric kTenantMemoryUsed{"tranche_tenant_memory_used_bytes",
                                          Type::kGauge,
                                          "Memory that the container's processes hold, contexts included.",
                                          {"namespace", "pod", "container", "gpu", "resource"}};
inline constexpr Metric kTenantMemoryPeak{"tranche_tenant_memory_peak_bytes",
                                          Type::kGauge,
                                          "Largest sampled memory since the allocation or the agent's start.",
                                          {"namespace", "pod", "container", "gpu", "resource"}};
inline constexpr Metric kTenantClients{"tranche_tenant_clients",
                                       Type::kGauge,
                                       "MPS clients of the container.",
                                       {"namespace", "pod", "container", "gpu", "resource"}};
inline constexpr Metric kTenantOver{"tranche_tenant_over_limit_seconds_total",
                                    Type::kCounter,
                                    "Time in which the container held more memory than its limit.",
                                    {"namespace", "pod", "container", "gpu", "resource"}};
inline constexpr Metric kTenantStops{"tranche_tenant_stops_total",
                                     Type::kCounter,
                                     "Processes that the guard ended; reason is memory-limit or outside-mps.",
                                     {"namespace", "pod", "container", "gpu", "resource", "reason"}};
inline constexpr Metric kTenantHeld{"tranche_tenant_held_seconds_total",
                                    Type::kCounter,
                                    "Time that the container has held slots.",
                                    {"namespace", "pod", "container", "gpu", "resource"}};
inline constexpr Metric kTenantShareHeld{"tranche_tenant_share_held_seconds_total",
                                         Type::kCounter,
                                         "GPU-seconds held: the time, times the share of the device's slots.",
                                         {"namespace", "pod", "container", "gpu", "resource"}};

inline constexpr Metric kKubeRequests{
    "tranche_kube_requests_total",
    Type::kCounter,
    "Requests to the API server; verb is list, watch, create or patch; code is the HTTP status or error.",
    {"verb", "code"}};
inline constexpr Metric kKubeWatchRestarts{"tranche_kube_watch_restarts_total", Type::kCounter,
                                           "Restarts of the pod watch; one in five to ten minutes is normal."};
inline constexpr Metric kKubeEventsDropped{"tranche_kube_events_dropped_total", Type::kCounter,
                                           "Kubernetes events that were dropped; status gives the last one."};

// In the order of the page.
inline constexpr std::array kAllMetrics{
    &kBuildInfo,
    &kLoopAge,
    &kLogLinesDropped,
    &kMpsPages,
    &kDriverReady,
    &kConfigProblems,
    &kConfigInForce,
    &kChangeWaiting,
    &kReady,
    &kMigState,
    &kMigChanges,
    &kMigChangeSeconds,
    &kMigWaitsFor,
    &kMigEvictions,
    &kMigInstances,
    &kGpuInfo,
    &kGpuMemory,
    &kGpuMemoryUsed,
    &kXidEvents,
    &kHealthChecks,
    &kDevicesUnhealthy,
    &kDeviceFalls,
    &kSlots,
    &kSlotsAllocated,
    &kGrants,
    &kAllocationsRefused,
    &kRegistered,
    &kRegistrations,
    &kWatchers,
    &kPoolState,
    &kPoolRestarts,
    &kPoolClients,
    &kPoolClientsMost,
    &kPoolUnprotected,
    &kPoolDead,
    &kPoolServers,
    &kPoolFaults,
    &kPoolProofs,
    &kPoolEnded,
    &kPoolLimitMemory,
    &kPoolLimitThreads,
    &kGuardActs,
    &kGuardForeignProcesses,
    &kGuardNotInForce,
    &kKubeRequests,
    &kKubeWatchRestarts,
    &kKubeEventsDropped,
    &kGpuSampled,
    &kGpuUtilization,
    &kGpuPower,
    &kGpuPowerLimit,
    &kGpuEnergy,
    &kGpuTemperature,
    &kGpuMemoryTemperature,
    &kGpuClock,
    &kGpuThrottle,
    &kGpuEcc,
    &kGpuGraphics,
    &kGpuSm,
    &kGpuOccupancy,
    &kGpuTensor,
    &kGpuDram,
    &kGpuPcie,
    &kGpuNvlink,
    &kMigMemoryUsed,
    &kMigGraphics,
    &kMigSm,
    &kMigOccupancy,
    &kMigTensor,
    &kMigDram,
    &kTenantSlots,
    &kTenantMemoryLimit,
    &kTenantSmLimit,
    &kTenantMemoryUsed,
    &kTenantMemoryPeak,
    &kTenantClients,
    &kTenantOver,
    &kTenantStops,
    &kTenantHeld,
    &kTenantShareHeld,
};

// What a pool's state prints as (mps::State, and mps::pool_word once its daemon serves), and so what
// tranche_pool_state counts.
inline constexpr std::array<std::string_view, 9> kPoolStates{
    "absent", "starting", "configuring", "proving", "serving", "wedged", "backing-off", "stopping", "given-up"};
inline constexpr std::array<std::string_view, 3> kServerStatuses{"INITIALIZING", "ACTIVE", "FAULT"};

std::string_view to_string(Type type);  // "gauge", "counter"

}  // namespace tranche::metrics
