#pragma once
// Every metric of ours, once: name, type, labels, meaning. docs/metrics.md is the same table for people, and a test
// holds the two together. A metric that is not here cannot be put on a Page. Pure constants.
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
inline constexpr Metric kDriverReady{"tranche_driver_ready", Type::kGauge,
                                     "1 when the driver library answers, 0 when it does not."};
inline constexpr Metric kConfigProblems{
    "tranche_config_problems", Type::kGauge,
    "Problems in the newest configuration; above 0 the last good one may still be in force."};

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
inline constexpr Metric kPoolLimitMemory{"tranche_pool_limit_memory_bytes",
                                         Type::kGauge,
                                         "Device memory that one client of the pool may get.",
                                         {"pool", "gpu"}};
inline constexpr Metric kPoolLimitThreads{"tranche_pool_limit_threads_percent",
                                          Type::kGauge,
                                          "Part of the GPU's threads that one client of the pool may use.",
                                          {"pool", "gpu"}};

// In the order of the page.
inline constexpr std::array kAllMetrics{
    &kBuildInfo,    &kDriverReady,        &kConfigProblems,   &kGpuInfo,          &kGpuMemory, &kGpuMemoryUsed,
    &kXidEvents,    &kHealthChecks,       &kDevicesUnhealthy, &kDeviceFalls,      &kSlots,     &kSlotsAllocated,
    &kGrants,       &kAllocationsRefused, &kRegistered,       &kRegistrations,    &kWatchers,  &kPoolState,
    &kPoolRestarts, &kPoolClients,        &kPoolLimitMemory,  &kPoolLimitThreads,
};

// What mps::State prints as, and so what tranche_pool_state counts.
inline constexpr std::array<std::string_view, 7> kPoolStates{"absent",      "starting", "configuring", "serving",
                                                             "backing-off", "stopping", "given-up"};

std::string_view to_string(Type type);  // "gauge", "counter"

}  // namespace tranche::metrics
