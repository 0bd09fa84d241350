#include "node/gpu/gpu_figures.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tranche::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTooOld = 5min;
constexpr Duration kLongestInterval = 2min;  // after a longer one, a scrape counts as the first
constexpr Duration kShortestInterval = 1s;   // between two measurements
constexpr Duration kAhead = 1s;              // of the next scrape

constexpr std::array<std::pair<std::uint64_t, const char*>, 7> kReasons{{{0x2, "applications_clocks"},
                                                                         {0x4, "sw_power_cap"},
                                                                         {0x8, "hw_slowdown"},
                                                                         {0x10, "sync_boost"},
                                                                         {0x20, "sw_thermal"},
                                                                         {0x40, "hw_thermal"},
                                                                         {0x80, "hw_power_brake"}}};

using Labels = std::initializer_list<std::string_view>;

template <class Value>
void set(metrics::Page& page, metrics::MetricRef metric, Labels labels, const std::optional<Value>& value) {
  if (value) page.set(metric, labels, *value);
}

void put_activity(metrics::Page& page, const std::string& gpu, const gpu::GpuActivity& activity) {
  set(page, "tranche_gpu_graphics_active_ratio", {gpu}, activity.graphics);
  set(page, "tranche_gpu_sm_active_ratio", {gpu}, activity.sm);
  set(page, "tranche_gpu_sm_occupancy_ratio", {gpu}, activity.occupancy);
  set(page, "tranche_gpu_tensor_active_ratio", {gpu}, activity.tensor);
  set(page, "tranche_gpu_dram_active_ratio", {gpu}, activity.dram);
  set(page, "tranche_gpu_pcie_bytes_per_second", {gpu, "sent"}, activity.pcie_sent);
  set(page, "tranche_gpu_pcie_bytes_per_second", {gpu, "received"}, activity.pcie_received);
  set(page, "tranche_gpu_nvlink_bytes_per_second", {gpu, "sent"}, activity.nvlink_sent);
  set(page, "tranche_gpu_nvlink_bytes_per_second", {gpu, "received"}, activity.nvlink_received);
}

void put_mig(metrics::Page& page, const std::string& gpu, const gpu::MigTelemetry& mig) {
  set(page, "tranche_mig_memory_used_bytes", {gpu, mig.uuid}, mig.memory_used);
  set(page, "tranche_mig_graphics_active_ratio", {gpu, mig.uuid}, mig.activity.graphics);
  set(page, "tranche_mig_sm_active_ratio", {gpu, mig.uuid}, mig.activity.sm);
  set(page, "tranche_mig_sm_occupancy_ratio", {gpu, mig.uuid}, mig.activity.occupancy);
  set(page, "tranche_mig_tensor_active_ratio", {gpu, mig.uuid}, mig.activity.tensor);
  set(page, "tranche_mig_dram_active_ratio", {gpu, mig.uuid}, mig.activity.dram);
}

}  // namespace

std::vector<gpu::GpuTelemetry> GpuFigures::look(MonoTime now) {
  const std::lock_guard lock(mutex_);
  const Duration interval = looked_ ? now - *looked_ : kLongestInterval;
  if (interval >= kShortestInterval || !looked_) {
    looked_ = now;
    const MonoTime due = interval >= kLongestInterval ? now : now + interval - std::min(kAhead, interval / 4);
    due_ = std::min(due_.value_or(due), due);
  }
  std::erase_if(round_, [now](const gpu::GpuTelemetry& gpu) { return now - gpu.at > kTooOld; });
  return round_;
}

std::optional<MonoTime> GpuFigures::next_measurement() {
  const std::lock_guard lock(mutex_);
  return due_;
}

void GpuFigures::begin_measurement() {
  const std::lock_guard lock(mutex_);
  due_.reset();
}

void GpuFigures::put(std::vector<gpu::GpuTelemetry> round) {
  const std::lock_guard lock(mutex_);
  round_ = std::move(round);
}

void put_gpu_metrics(metrics::Page& page, const std::vector<gpu::GpuTelemetry>& round, MonoTime now, WallTime wall) {
  for (const auto& gpu : round) {
    const auto at = std::chrono::duration_cast<std::chrono::milliseconds>((wall - (now - gpu.at)).time_since_epoch());
    page.set("tranche_gpu_sample_timestamp_seconds", {gpu.uuid}, static_cast<double>(at.count()) / 1000);
    set(page, "tranche_gpu_memory_used_bytes", {gpu.uuid}, gpu.memory_used);
    set(page, "tranche_gpu_utilization_ratio", {gpu.uuid}, gpu.utilization);
    set(page, "tranche_gpu_power_watts", {gpu.uuid}, gpu.power_watts);
    set(page, "tranche_gpu_power_limit_watts", {gpu.uuid}, gpu.power_limit_watts);
    set(page, "tranche_gpu_energy_joules_total", {gpu.uuid}, gpu.energy_joules);
    set(page, "tranche_gpu_temperature_celsius", {gpu.uuid}, gpu.celsius);
    set(page, "tranche_gpu_memory_temperature_celsius", {gpu.uuid}, gpu.memory_celsius);
    set(page, "tranche_gpu_clock_hertz", {gpu.uuid, "sm"}, gpu.sm_hertz);
    set(page, "tranche_gpu_clock_hertz", {gpu.uuid, "memory"}, gpu.memory_hertz);
    set(page, "tranche_gpu_ecc_errors_total", {gpu.uuid, "corrected"}, gpu.ecc_corrected);
    set(page, "tranche_gpu_ecc_errors_total", {gpu.uuid, "uncorrected"}, gpu.ecc_uncorrected);
    for (const auto& [bit, reason] : kReasons)
      if (gpu.clock_reasons)
        page.set("tranche_gpu_throttle_reason", {gpu.uuid, reason}, (*gpu.clock_reasons & bit) != 0);
    put_activity(page, gpu.uuid, gpu.activity);
    for (const auto& mig : gpu.mig) put_mig(page, gpu.uuid, mig);
  }
}

}  // namespace tranche::node
