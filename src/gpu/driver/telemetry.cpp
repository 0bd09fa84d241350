#include <array>
#include <cmath>
#include <memory>

#include "gpu/driver/session.h"

namespace tranche::gpu::nvml {
namespace {

using namespace std::chrono_literals;

constexpr Duration kShortestWindow = 1s;    // two readers within it get the same activity
constexpr Duration kLongestWindow = 10min;  // an average over more is not meaningful
// One read of the energy costs 5 ms of CPU time on an H100 (580.159.04); all other figures together cost 1 ms.
constexpr Duration kEnergyEvery = 10s;

constexpr std::uint32_t kMemoryTemperature = 82, kEnergy = 83, kEccCorrected = 3, kEccUncorrected = 4,
                        kPowerLimit = 192;
constexpr std::uint32_t kSmClock = 1, kMemoryClock = 2;

std::optional<double> thousandth(std::optional<std::uint64_t> value) {
  return value ? std::optional(static_cast<double>(*value) / 1000) : std::nullopt;
}

std::optional<double> clock_of(const Functions& f, Device device, std::uint32_t which) {
  std::uint32_t mhz = 0;
  if (call(f.clock_info, device, which, &mhz) != Return::kSuccess) return {};
  return mhz * 1e6;
}

std::optional<double> celsius_of(const Functions& f, Device device) {
  Temperature now{kTemperatureVersion, 0, 0};
  if (call(f.temperature, device, &now) == Return::kSuccess) return now.celsius;
  std::uint32_t celsius = 0;
  if (call(f.temperature_before, device, 0U, &celsius) != Return::kSuccess) return {};
  return celsius;
}

std::optional<Bytes> memory_of(const Functions& f, Device device) {
  const auto memory = reported(f.memory, device);
  return memory ? std::optional(Bytes{memory->used}) : std::nullopt;
}

bool has_activity(const Functions& f, Device device) {
  GpmSupport support{.version = 1, .supported = 0};
  return call(f.gpm_support, device, &support) == Return::kSuccess && support.supported != 0;
}

struct Wanted {
  std::uint32_t id;
  std::optional<double> GpuActivity::* member;
  double unit;
};
constexpr double kPercent = 0.01, kMib = 1 << 20;
constexpr std::array kWanted{
    Wanted{1, &GpuActivity::graphics, kPercent},   Wanted{2, &GpuActivity::sm, kPercent},
    Wanted{3, &GpuActivity::occupancy, kPercent},  Wanted{5, &GpuActivity::tensor, kPercent},
    Wanted{10, &GpuActivity::dram, kPercent},      Wanted{20, &GpuActivity::pcie_sent, kMib},
    Wanted{21, &GpuActivity::pcie_received, kMib}, Wanted{60, &GpuActivity::nvlink_received, kMib},
    Wanted{61, &GpuActivity::nvlink_sent, kMib},
};

}  // namespace

void Telemetry::begin(const std::vector<Held>& held) {
  if (under_way()) return;
  round_.clear();
  waiting_.assign(held.rbegin(), held.rend());
}

bool Telemetry::step(const Library& library, MonoTime now) {
  if (waiting_.empty()) return false;
  const Held gpu = std::move(waiting_.back());
  waiting_.pop_back();
  round_.push_back(read(library, gpu, now));
  return waiting_.empty();
}

void Telemetry::forget(const Library& library) {
  const Functions& f = library.functions();
  for (const auto& [key, window] : windows_)
    for (const GpmSample sample : {window.before, window.next})
      if (sample != nullptr) (void)call(f.gpm_sample_free, sample);
  windows_.clear();
  energies_.clear();
  waiting_.clear();
  round_.clear();
}

std::optional<GpuActivity> Telemetry::between(const Functions& f, const Window& window) const {
  // The size of any header's struct is sufficient: the library accesses only as many metrics as `count` says.
  const auto get = std::make_unique<GpmMetricsGet>();
  get->version = 1;
  get->count = kWanted.size();
  get->first = window.before;
  get->second = window.next;
  for (std::size_t i = 0; i < kWanted.size(); ++i) {
    get->metrics[i].id = kWanted[i].id;
    get->metrics[i].result = Return::kUnknown;
  }
  if (call(f.gpm_metrics_get, get.get()) != Return::kSuccess) return {};
  GpuActivity activity;
  for (std::size_t i = 0; i < kWanted.size(); ++i) {
    const GpmMetric& metric = get->metrics[i];
    if (metric.result == Return::kSuccess && std::isfinite(metric.value))
      activity.*kWanted[i].member = metric.value * kWanted[i].unit;
  }
  return activity;
}

template <class Take>
GpuActivity Telemetry::activity(const Library& library, const std::string& key, MonoTime now, Take take) {
  const Functions& f = library.functions();
  if (f.gpm_sample_alloc == nullptr || f.gpm_metrics_get == nullptr) return {};
  Window& window = windows_[key];
  if (window.at && now - *window.at < kShortestWindow) return window.last;
  for (GpmSample* sample : {&window.before, &window.next})
    if (*sample == nullptr && call(f.gpm_sample_alloc, sample) != Return::kSuccess) return {};
  if (take(f, window.next) != Return::kSuccess) {
    window.at.reset();
    window.last = {};
    return {};
  }
  const bool comparable = window.at && now - *window.at <= kLongestWindow;
  window.last = comparable ? between(f, window).value_or(GpuActivity{}) : GpuActivity{};
  std::swap(window.before, window.next);
  window.at = now;
  return window.last;
}

GpuTelemetry Telemetry::read(const Library& library, const Held& gpu, MonoTime now) {
  const Functions& f = library.functions();
  GpuTelemetry into;
  into.uuid = gpu.uuid;
  into.at = now;
  into.memory_used = memory_of(f, gpu.device);
  if (const auto utilization = reported(f.utilization, gpu.device)) into.utilization = utilization->gpu / 100.0;
  if (const auto milliwatts = reported(f.power_usage, gpu.device)) into.power_watts = *milliwatts / 1000.0;
  into.celsius = celsius_of(f, gpu.device);
  into.sm_hertz = clock_of(f, gpu.device, kSmClock);
  into.memory_hertz = clock_of(f, gpu.device, kMemoryClock);
  into.clock_reasons = reported(f.clock_reasons, gpu.device);
  const auto [memory_celsius, corrected, uncorrected, power_limit] =
      read_fields(f, gpu.device, std::array{kMemoryTemperature, kEccCorrected, kEccUncorrected, kPowerLimit});
  if (memory_celsius) into.memory_celsius = static_cast<double>(*memory_celsius);
  into.ecc_corrected = corrected;
  into.ecc_uncorrected = uncorrected;
  into.power_limit_watts = thousandth(power_limit);
  Energy& energy = energies_[gpu.uuid];
  if (!energy.at || now - *energy.at >= kEnergyEvery)
    energy = {now, thousandth(read_fields(f, gpu.device, std::array{kEnergy})[0])};
  into.energy_joules = energy.joules;
  if (has_activity(f, gpu.device))
    into.activity = activity(library, gpu.uuid, now, [&gpu](const Functions& of, GpmSample sample) {
      return call(of.gpm_sample_get, gpu.device, sample);
    });
  if (gpu.mig_enabled) read_mig(library, gpu, into, now);
  return into;
}

// Pipe activity is read from the compute instance, memory traffic from the GPU instance.
void Telemetry::read_mig(const Library& library, const Held& gpu, GpuTelemetry& into, MonoTime now) {
  const Functions& f = library.functions();
  const std::uint32_t most = reported(f.max_mig_devices, gpu.device).value_or(0);
  for (std::uint32_t slot = 0; slot < most; ++slot) {
    Device mig = nullptr;
    if (call(f.mig_device_by_index, gpu.device, slot, &mig) != Return::kSuccess) continue;
    MigTelemetry one;
    read_text(f.uuid, mig, one.uuid);
    if (one.uuid.empty()) continue;
    one.memory_used = memory_of(f, mig);
    if (has_activity(f, gpu.device)) {
      one.activity = activity(library, one.uuid, now, [mig](const Functions& of, GpmSample sample) {
        return call(of.gpm_sample_get, mig, sample);
      });
      if (const auto instance = reported(f.gpu_instance_id, mig))
        one.activity.dram = activity(library, gpu.uuid + "/" + std::to_string(*instance), now,
                                     [&](const Functions& of, GpmSample sample) {
                                       return call(of.gpm_mig_sample_get, gpu.device, *instance, sample);
                                     })
                                .dram;
      one.activity.pcie_sent = one.activity.pcie_received = {};
      one.activity.nvlink_sent = one.activity.nvlink_received = {};
    }
    into.mig.push_back(std::move(one));
  }
}

}  // namespace tranche::gpu::nvml
