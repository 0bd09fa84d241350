#pragma once
// Every metric of ours, once: name, type, labels, meaning. docs/reference/metrics.md is the same table for people, and
// a test holds the two together. A metric that is not here cannot be put on a Page. Pure constants.
#include <array>
#include <cstddef>
#include <string_view>

namespace tranche::metrics {

enum class Type { kGauge, kCounter };

inline constexpr std::size_t kMostLabels = 5;

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
inline constexpr Metric kBuildInfo{"tranche_build_info", Type::kGauge, "1; which version this is.", {"version"}};
inline constexpr Metric kLoopAge{"tranche_loop_age_seconds", Type::kGauge,
                                 "Time since the program's event loop last ran; above 2 it is stuck."};
inline constexpr Metric kLogLinesDropped{"tranche_log_lines_dropped_total", Type::kCounter,
                                         "Log lines dropped because the reader of standard error did not read."};
inline constexpr Metric kMpsPages{"tranche_mps_pages", Type::kGauge,
                                  "1 when tranche mps serves its HTTP pages or is asked for none, 0 when it cannot."};
inline constexpr Metric kDriverReady{"tranche_driver_ready", Type::kGauge,
                                     "1 when the driver library answers, 0 when it does not."};
inline constexpr Metric kConfigProblems{
    "tranche_config_problems", Type::kGauge,
    "Problems in the newest configuration; above 0 the last good one may still be in force."};

inline constexpr Metric kConfigInForce{"tranche_config_in_force",
                                       Type::kGauge,
                                       "1 for what is in force: file, last-good (the newest was refused) or defaults.",
                                       {"state"}};
inline constexpr Metric kChangeWaiting{"tranche_change_waiting", Type::kGauge,
                                       "Steps of a change of the configuration that wait for slots to be free."};
inline constexpr Metric kReady{"tranche_ready",
                               Type::kGauge,
                               "1 for the reason of the node condition TrancheReady; status is True or False.",
                               {"status", "reason"}};

inline constexpr Metric kGpuInfo{
    "tranche_gpu_info", Type::kGauge, "1 for every GPU of the node.", {"gpu", "index", "name", "pci_bus_id", "driver"}};
inline constexpr Metric kGpuMemory{"tranche_gpu_memory_bytes", Type::kGauge, "Memory of the GPU.", {"gpu"}};
inline constexpr Metric kGpuMemoryUsed{
    "tranche_gpu_memory_used_bytes", Type::kGauge, "Memory in use on the GPU, the driver's own included.", {"gpu"}};
inline constexpr Metric kXidEvents{"tranche_xid_events_total",
                                   Type::kCounter,
                                   "XID errors that the driver reported since this program started.",
                                   {"gpu", "xid"}};

inline constexpr Metric kHealthChecks{"tranche_health_checks", Type::kGauge,
                                      "1 when faults of GPUs are looked for, 0 when they are disabled."};
inline constexpr Metric kDevicesUnhealthy{
    "tranche_devices_unhealthy",
    Type::kGauge,
    "Devices whose slots are unhealthy now; cause is xid, reset, lost, unwatched, driver, node or pool.",
    {"cause"}};
inline constexpr Metric kDeviceFalls{"tranche_device_falls_total",
                                     Type::kCounter,
                                     "Times that a device became unhealthy, by the cause at that moment.",
                                     {"cause"}};

inline constexpr Metric kSlots{"tranche_slots",
                               Type::kGauge,
                               "Slots advertised to kubelet; health is healthy or unhealthy.",
                               {"resource", "gpu", "health"}};
inline constexpr Metric kSlotsAllocated{
    "tranche_slots_allocated", Type::kGauge, "Slots that containers hold, by kubelet's word.", {"resource", "gpu"}};
inline constexpr Metric kGrants{
    "tranche_grants_total", Type::kCounter, "Containers that were given slots.", {"resource"}};
inline constexpr Metric kAllocationsRefused{
    "tranche_allocations_refused_total", Type::kCounter, "Requests for slots that were refused.", {"resource"}};
inline constexpr Metric kRegistered{
    "tranche_registered", Type::kGauge, "1 when kubelet knows the resource.", {"resource"}};
inline constexpr Metric kRegistrations{"tranche_registrations_total",
                                       Type::kCounter,
                                       "Registrations with kubelet; grows when kubelet restarts.",
                                       {"resource"}};
inline constexpr Metric kWatchers{
    "tranche_watchers",
    Type::kGauge,
    "Open device list streams of kubelet; 0 while registered means that kubelet sees nothing.",
    {"resource"}};

inline constexpr Metric kPoolState{"tranche_pool_state",
                                   Type::kGauge,
                                   "1 for the state that the MPS pool is in, 0 for the others.",
                                   {"pool", "state"}};
inline constexpr Metric kPoolRestarts{
    "tranche_pool_restarts_total", Type::kCounter, "Starts of the pool's MPS daemon after its first.", {"pool"}};
inline constexpr Metric kPoolClients{
    "tranche_pool_clients", Type::kGauge, "CUDA processes connected to the pool.", {"pool"}};
inline constexpr Metric kPoolClientsMost{
    "tranche_pool_clients_most", Type::kGauge, "CUDA processes that the pool's MPS server takes at once.", {"pool"}};
inline constexpr Metric kPoolTier{
    "tranche_pool_tier", Type::kGauge, "1 for the tier by which shares of the pool are enforced.", {"pool", "tier"}};
inline constexpr Metric kPoolServers{
    "tranche_pool_servers", Type::kGauge, "MPS servers of the pool by their own word.", {"pool", "status"}};
inline constexpr Metric kPoolFaults{
    "tranche_pool_faults_total",
    Type::kCounter,
    "Faults that hit a pool's clients; kind is fatal, exception (of a server) or unclean-exit (a client died at work).",
    {"pool", "kind"}};
inline constexpr Metric kPoolProofs{"tranche_pool_proofs_total",
                                    Type::kCounter,
                                    "CUDA starts through the pool's daemon to prove that it serves, by result.",
                                    {"pool", "result"}};
inline constexpr Metric kPoolEnded{
    "tranche_pool_ended_total",
    Type::kCounter,
    "Times that clients, servers or the daemon of a pool were ended because new CUDA programs did not start.",
    {"pool", "what"}};
inline constexpr Metric kPoolLimitMemory{"tranche_pool_limit_memory_bytes",
                                         Type::kGauge,
                                         "Device memory that one client of the pool may get.",
                                         {"pool", "gpu"}};
inline constexpr Metric kPoolLimitThreads{"tranche_pool_limit_threads_percent",
                                          Type::kGauge,
                                          "Part of the GPU's threads that one client of the pool may use.",
                                          {"pool", "gpu"}};

inline constexpr Metric kGuardActs{"tranche_guard_acts_total",
                                   Type::kCounter,
                                   "What the guard did, or was to do; outcome is done, not-a-client, refused, "
                                   "timed-out or failed.",
                                   {"resource", "policy", "outcome"}};
inline constexpr Metric kGuardStrangers{
    "tranche_guard_strangers", Type::kGauge, "Processes on a shared GPU that are no MPS clients.", {"gpu"}};
inline constexpr Metric kGuardNotInForce{"tranche_guard_not_in_force", Type::kGauge,
                                         "Promises that the guard cannot keep now; the status document names them."};
inline constexpr Metric kKubeRequests{"tranche_kube_requests_total",
                                      Type::kCounter,
                                      "Requests to the API server; verb is list, watch, create or patch, code the HTTP "
                                      "status or error.",
                                      {"verb", "code"}};
inline constexpr Metric kKubeWatchRestarts{"tranche_kube_watch_restarts_total", Type::kCounter,
                                           "Watches of pods after the first; one in five to ten minutes is usual."};
inline constexpr Metric kKubeEventsDropped{"tranche_kube_events_dropped_total", Type::kCounter,
                                           "Kubernetes events that were never written; status names the last one."};

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
    &kPoolTier,
    &kPoolServers,
    &kPoolFaults,
    &kPoolProofs,
    &kPoolEnded,
    &kPoolLimitMemory,
    &kPoolLimitThreads,
    &kGuardActs,
    &kGuardStrangers,
    &kGuardNotInForce,
    &kKubeRequests,
    &kKubeWatchRestarts,
    &kKubeEventsDropped,
};

// What a pool's state prints as (mps::State, and mps::pool_word once its daemon serves), and so what
// tranche_pool_state counts.
inline constexpr std::array<std::string_view, 9> kPoolStates{
    "absent", "starting", "configuring", "proving", "serving", "wedged", "backing-off", "stopping", "given-up"};
inline constexpr std::array<std::string_view, 3> kServerStatuses{"INITIALIZING", "ACTIVE", "FAULT"};

std::string_view to_string(Type type);  // "gauge", "counter"

}  // namespace tranche::metrics
