// GPU performance monitoring: two samples and the metrics between them, from the simulated utilisation.
#include <map>
#include <memory>
#include <mutex>

#include "session.h"

namespace tranche::sim::nvml {

struct GpmSampleBody {
  double busy = 0;  // percent, of the GPU or the instance
  bool taken = false;
};

namespace {

constexpr u32 kPlainVersion = 1;

struct Samples {
  std::mutex mutex;
  std::map<GpmSample, std::unique_ptr<GpmSampleBody>> all;
};
Samples& samples() {
  static auto* const the_samples = new Samples;
  return *the_samples;
}

Return take(std::string_view name, Device device, GpmSample sample, u32 gpu_instance, Accept accept) {
  const Call call(name, device, accept);
  if (call.refusal() != kSuccess) return call.refusal();
  if (call.profile().architecture < kHopper) return kNotSupported;
  if (gpu_instance != kWholeGpu && find_gi(call.gpu(), gpu_instance) == nullptr) return kNotFound;
  const std::scoped_lock lock(samples().mutex);
  const auto found = samples().all.find(sample);
  if (found == samples().all.end()) return kInvalidArgument;
  *found->second = {static_cast<double>(call.gpu().utilization), true};
  return kSuccess;
}

void fill(GpmMetric& metric, double busy) {
  metric.result = kSuccess;
  metric.value = 0;
  for (auto& name : metric.names) name = nullptr;
  switch (metric.id) {
    case 1:  // graphics engine active
    case 2:
      metric.value = busy;
      break;  // SM active
    case 3:
      metric.value = busy / 2;
      break;  // SM occupancy
    case 5:
      metric.value = busy / 4;
      break;  // tensor pipe active
    case 10:
      metric.value = busy / 2;
      break;  // memory bandwidth in use
    case 20:
    case 21:
      metric.value = busy * 8;
      break;  // MiB per second over PCIe
    case 11:
    case 12:
    case 13:
    case 60:
    case 61:
      break;  // pipes and links that the simulated work does not use
    default:
      metric.result = kNotSupported;
      break;
  }
}

}  // namespace

NVML Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  return answer(__func__, device, Accept::kGpuOrMig, support, [](const Call& call, GpmSupport& out) {
    if (out.version != kPlainVersion) return kArgumentVersionMismatch;
    out.supported = call.profile().architecture >= kHopper ? 1 : 0;
    return kSuccess;
  });
}

NVML Return nvmlGpmSampleAlloc(GpmSample* sample) {
  const Call call(__func__);
  if (call.refusal() != kSuccess) return call.refusal();
  if (sample == nullptr) return kInvalidArgument;
  auto body = std::make_unique<GpmSampleBody>();
  *sample = body.get();
  const std::scoped_lock lock(samples().mutex);
  samples().all[*sample] = std::move(body);
  return kSuccess;
}

NVML Return nvmlGpmSampleFree(GpmSample sample) {
  const Call call(__func__);
  if (call.refusal() != kSuccess) return call.refusal();
  const std::scoped_lock lock(samples().mutex);
  return samples().all.erase(sample) == 1 ? kSuccess : kInvalidArgument;
}

NVML Return nvmlGpmSampleGet(Device device, GpmSample sample) {
  return take(__func__, device, sample, kWholeGpu, Accept::kGpuOrMig);
}
NVML Return nvmlGpmMigSampleGet(Device device, u32 gpu_instance, GpmSample sample) {
  return take(__func__, device, sample, gpu_instance, Accept::kGpu);
}

NVML Return nvmlGpmMetricsGet(GpmMetricsGet* get) {
  const Call call(__func__);
  if (call.refusal() != kSuccess) return call.refusal();
  if (get == nullptr) return kInvalidArgument;
  if (get->version != kPlainVersion) return kArgumentVersionMismatch;
  const std::scoped_lock lock(samples().mutex);
  const auto first = samples().all.find(get->first);
  const auto second = samples().all.find(get->second);
  const auto end = samples().all.end();
  if (first == end || second == end || !first->second->taken || !second->second->taken) return kInvalidArgument;
  const double busy = (first->second->busy + second->second->busy) / 2;
  GpmMetric* metric = get->metrics;
  for (u32 i = 0; i < get->count; ++i) fill(metric[i], busy);
  return kSuccess;
}

}  // namespace tranche::sim::nvml
