#include <algorithm>
#include <utility>

#include "node/observe/tenant_metrics.h"
#include "node/reports.h"
#include "observe/metrics/page.h"

namespace tranche::node {
namespace {

using metrics::Metric;
using metrics::Number;
using Value = std::optional<Number>;

// Labels in the exporter's order; what is "" is left out.
constexpr Metric kOfGpu{"", "", {"gpu", "UUID", "pci_bus_id", "device", "modelName"}};
constexpr Metric kOfInstance{"", "", {"GPU_I_PROFILE", "GPU_I_ID"}};
constexpr Metric kOfHost{"", "", {"hostname"}};
constexpr Metric kOfTenant{"", "", {"container", "namespace", "pod"}};

std::string joined(std::string labels, const std::string& more) {
  if (more.empty()) return labels;
  labels.back() = ',';
  return labels + more.substr(1);
}

// A GPU or a MIG device, and who holds it.
struct Row {
  std::string labels;                                       // of the device
  gpu::GpuTelemetry figures;                                // of a MIG device only its activity; nothing: not measured
  Value memory = {};                                        // of a GPU that is measured, in bytes
  std::string tenant_labels = {};                           // of the container that holds all of it; "" = none does
  std::vector<std::pair<std::string, Bytes>> used_by = {};  // by the labels of each tenant
};

template <class Figures>
struct Field {
  Metric metric;
  std::optional<double> Figures::* member;
};

const Field<gpu::GpuTelemetry> kGpuFields[] = {
    {{"DCGM_FI_DEV_SM_CLOCK_HERTZ", "SM clock frequency (in Hz)."}, &gpu::GpuTelemetry::sm_hertz},
    {{"DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", "Memory clock frequency (in Hz)."}, &gpu::GpuTelemetry::memory_hertz},
    {{"DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "Memory temperature (in C)."}, &gpu::GpuTelemetry::memory_celsius},
    {{"DCGM_FI_DEV_GPU_TEMP_CELSIUS", "GPU temperature (in C)."}, &gpu::GpuTelemetry::celsius},
    {{"DCGM_FI_DEV_BOARD_POWER_WATTS", "Power draw (in W)."}, &gpu::GpuTelemetry::power_watts},
    {{"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "Energy since the driver was loaded (in J)."},
     &gpu::GpuTelemetry::energy_joules},
    {{"DCGM_FI_DEV_GPU_UTIL_RATIO", "Share of time in which any kernel ran (0 to 1)."},
     &gpu::GpuTelemetry::utilization},
};
constexpr Metric kFbCapacity{"DCGM_FI_DEV_FB_CAPACITY_BYTES", "Memory (in bytes)."};
constexpr Metric kFbFree{"DCGM_FI_DEV_FB_FREE_BYTES", "Memory that is free (in bytes)."};
constexpr Metric kFbUsed{"DCGM_FI_DEV_FB_USED_BYTES", "Memory that the pod's container uses (in bytes)."};

const Field<gpu::GpuActivity> kActivityFields[] = {
    {{"DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "Share of time in which the graphics engine had work."},
     &gpu::GpuActivity::graphics},
    {{"DCGM_FI_PROF_SM_UTIL_RATIO", "Share of time with a resident warp, mean over the SMs."}, &gpu::GpuActivity::sm},
    {{"DCGM_FI_PROF_SM_OCCUPANCY_RATIO", "Resident warps over the maximum."}, &gpu::GpuActivity::occupancy},
    {{"DCGM_FI_PROF_TENSOR_UTIL_RATIO", "Share of time in which a tensor pipe was active."}, &gpu::GpuActivity::tensor},
    {{"DCGM_FI_PROF_DRAM_UTIL_RATIO", "Share of time in which the memory interface moved data."},
     &gpu::GpuActivity::dram},
    {{"DCGM_FI_PROF_PCIE_TX_BYTES", "PCIe traffic sent (in bytes per second)."}, &gpu::GpuActivity::pcie_sent},
    {{"DCGM_FI_PROF_PCIE_RX_BYTES", "PCIe traffic received (in bytes per second)."}, &gpu::GpuActivity::pcie_received},
    {{"DCGM_FI_PROF_NVLINK_TX_BYTES", "NVLink traffic sent (in bytes per second)."}, &gpu::GpuActivity::nvlink_sent},
    {{"DCGM_FI_PROF_NVLINK_RX_BYTES", "NVLink traffic received (in bytes per second)."},
     &gpu::GpuActivity::nvlink_received},
};

std::string labels_of(const gpu::Gpu& gpu, const gpu::MigDevice* mig, const std::string& host) {
  auto labels = metrics::label_text(
      kOfGpu, {std::to_string(gpu.index), gpu.uuid, gpu.pci_bus_id, "nvidia" + std::to_string(gpu.minor), gpu.name});
  if (mig != nullptr)
    labels = joined(labels, metrics::label_text(kOfInstance, {mig->profile, std::to_string(mig->gpu_instance)}));
  return joined(labels, host);
}

void add_tenants(Row& row, const std::string& uuid, const TenantRows& tenants, const plan::Plan& plan) {
  const auto* device = find_device(plan, uuid);
  const auto slots = device == nullptr ? 0 : device->slots;  // 0: of a claim
  for (const auto& [key, tenant] : tenants) {
    if (key.device != uuid) continue;
    const auto labels = metrics::label_text(kOfTenant, {key.container, key.pod_namespace, key.pod});
    if (tenant.slots == slots) row.tenant_labels = labels;
    if (tenant.figure && tenant.figure->used)
      row.used_by.emplace_back(joined(row.labels, labels), *tenant.figure->used);
  }
}

std::vector<Row> rows_of(const Snapshot& s, const gpu::Inventory& inventory, const TenantRows& tenants,
                         const std::vector<gpu::GpuTelemetry>& gpus) {
  std::vector<Row> rows;
  const std::string host = s.cluster.node.empty() ? "" : metrics::label_text(kOfHost, {s.cluster.node});
  const auto add = [&](Row row, const std::string& uuid) {
    add_tenants(row, uuid, tenants, s.plan);
    rows.push_back(std::move(row));
  };
  for (const auto& gpu : inventory.gpus) {
    const auto measured = std::ranges::find(gpus, gpu.uuid, &gpu::GpuTelemetry::uuid);
    const auto figures = measured == gpus.end() ? gpu::GpuTelemetry() : *measured;
    const bool known = measured != gpus.end() && gpu.memory.value > 0;
    add({labels_of(gpu, nullptr, host), figures, known ? Value(gpu.memory) : std::nullopt}, gpu.uuid);
    for (const auto& mig : gpu.mig_devices) {
      gpu::GpuTelemetry of_mig;
      if (const auto found = std::ranges::find(figures.mig, mig.uuid, &gpu::MigTelemetry::uuid);
          found != figures.mig.end())
        of_mig.activity = found->activity;
      add({labels_of(gpu, &mig, host), of_mig}, mig.uuid);
    }
  }
  return rows;
}

}  // namespace

LongText dcgm_metrics(const Snapshot& s, const guard::Figures& figures, const std::vector<gpu::GpuTelemetry>& gpus) {
  LongText out;
  if (!s.inventory) return out;
  const auto rows = rows_of(s, *s.inventory, tenant_rows(s, figures), gpus);
  const auto add = [&](const Metric& metric, auto value_of) {
    metrics::FamilyText family(out, metric);
    for (const auto& row : rows) family.add(joined(row.labels, row.tenant_labels), value_of(row));
  };
  for (const auto& field : kGpuFields)
    add(field.metric, [&](const Row& row) -> Value { return row.figures.*field.member; });
  add(kFbCapacity, [](const Row& row) { return row.memory; });
  add(kFbFree, [](const Row& row) -> Value {
    if (!row.memory || !row.figures.memory_used) return {};
    return row.memory->value - Number(*row.figures.memory_used).value;
  });
  for (const auto& field : kActivityFields)
    add(field.metric, [&](const Row& row) -> Value { return row.figures.activity.*field.member; });
  metrics::FamilyText used(out, kFbUsed);
  for (const auto& row : rows)
    for (const auto& [labels, bytes] : row.used_by) used.add(labels, bytes);
  return out;
}

}  // namespace tranche::node
