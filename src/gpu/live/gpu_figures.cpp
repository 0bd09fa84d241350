#include "gpu/live/gpu_figures.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tranche::agent {
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

void set(metrics::Page& page, const metrics::Metric& metric, Labels labels, const std::optional<double>& value) {
  if (value) page.set(metric, labels, *value);
}

std::optional<double> number(const std::optional<std::uint64_t>& count) {
  return count ? std::optional(static_cast<double>(*count)) : std::nullopt;
}

std::optional<double> number(const std::optional<Bytes>& bytes) {
  return bytes ? std::optional(static_cast<double>(bytes->value)) : std::nullopt;
}

void put_activity(metrics::Page& page, const std::string& gpu, const host::GpuActivity& activity) {
  set(page, metrics::kGpuGraphics, {gpu}, activity.graphics);
  set(page, metrics::kGpuSm, {gpu}, activity.sm);
  set(page, metrics::kGpuOccupancy, {gpu}, activity.occupancy);
  set(page, metrics::kGpuTensor, {gpu}, activity.tensor);
  set(page, metrics::kGpuDram, {gpu}, activity.dram);
  set(page, metrics::kGpuPcie, {gpu, "sent"}, activity.pcie_sent);
  set(page, metrics::kGpuPcie, {gpu, "received"}, activity.pcie_received);
  set(page, metrics::kGpuNvlink, {gpu, "sent"}, activity.nvlink_sent);
  set(page, metrics::kGpuNvlink, {gpu, "received"}, activity.nvlink_received);
}

void put_mig(metrics::Page& page, const std::string& gpu, const host::MigTelemetry& mig) {
  set(page, metrics::kMigMemoryUsed, {gpu, mig.uuid}, number(mig.memory_used));
  set(page, metrics::kMigGraphics, {gpu, mig.uuid}, mig.activity.graphics);
  set(page, metrics::kMigSm, {gpu, mig.uuid}, mig.activity.sm);
  set(page, metrics::kMigOccupancy, {gpu, mig.uuid}, mig.activity.occupancy);
  set(page, metrics::kMigTensor, {gpu, mig.uuid}, mig.activity.tensor);
  set(page, metrics::kMigDram, {gpu, mig.uuid}, mig.activity.dram);
}

}  // namespace

std::vector<host::GpuTelemetry> GpuFigures::look(MonoTime now) {
  const std::lock_guard lock(mutex_);
  const Duration interval = looked_ ? now - *looked_ : kLongestInterval;
  if (interval >= kShortestInterval || !looked_) {
    looked_ = now;
    due_ = interval >= kLongestInterval ? now : now + interval - std::min(kAhead, interval / 4);
  }
  std::erase_if(round_, [now](const host::GpuTelemetry& gpu) { return now - gpu.at > kTooOld; });
  return round_;
}

std::optional<MonoTime> GpuFigures::next_measurement() {
  const std::lock_guard lock(mutex_);
  if (!due_ || (scheduled_ && *scheduled_ <= *due_)) return {};
  scheduled_ = std::exchange(due_, std::nullopt);
  return scheduled_;
}

void GpuFigures::begin_measurement() {
  const std::lock_guard lock(mutex_);
  scheduled_.reset();
}

void GpuFigures::put(std::vector<host::GpuTelemetry> round) {
  const std::lock_guard lock(mutex_);
  round_ = std::move(round);
}

metrics::Page gpu_metrics(const std::vector<host::GpuTelemetry>& round, MonoTime now, WallTime wall) {
  metrics::Page page;
  for (const auto& gpu : round) {
    const auto at = std::chrono::duration_cast<std::chrono::milliseconds>((wall - (now - gpu.at)).time_since_epoch());
    page.set(metrics::kGpuSampled, {gpu.uuid}, static_cast<double>(at.count()) / 1000);
    set(page, metrics::kGpuMemoryUsed, {gpu.uuid}, number(gpu.memory_used));
    set(page, metrics::kGpuUtilization, {gpu.uuid}, gpu.utilization);
    set(page, metrics::kGpuPower, {gpu.uuid}, gpu.power_watts);
    set(page, metrics::kGpuPowerLimit, {gpu.uuid}, gpu.power_limit_watts);
    set(page, metrics::kGpuEnergy, {gpu.uuid}, gpu.energy_joules);
    set(page, metrics::kGpuTemperature, {gpu.uuid}, gpu.celsius);
    set(page, metrics::kGpuMemoryTemperature, {gpu.uuid}, gpu.memory_celsius);
    set(page, metrics::kGpuClock, {gpu.uuid, "sm"}, gpu.sm_hertz);
    set(page, metrics::kGpuClock, {gpu.uuid, "memory"}, gpu.memory_hertz);
    set(page, metrics::kGpuEcc, {gpu.uuid, "corrected"}, number(gpu.ecc_corrected));
    set(page, metrics::kGpuEcc, {gpu.uuid, "uncorrected"}, number(gpu.ecc_uncorrected));
    for (const auto& [bit, reason] : kReasons)
      if (gpu.clock_reasons) page.set(metrics::kGpuThrottle, {gpu.uuid, reason}, (*gpu.clock_reasons & bit) != 0);
    put_activity(page, gpu.uuid, gpu.activity);
    for (const auto& mig : gpu.mig) put_mig(page, gpu.uuid, mig);
  }
  return page;
}

}  // namespace tranche::agent
