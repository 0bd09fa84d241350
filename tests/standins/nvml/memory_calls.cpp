// Memory and utilisation of a GPU or a MIG device.
#include <algorithm>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

struct Amounts {
  u64 total = 0, reserved = 0, used = 0;  // used contains reserved
};

Amounts amounts(const Call& call) {
  if (!call.is_mig()) {
    return {call.profile().memory_total, call.profile().memory_reserved, call.node().memory_used(call.index())};
  }
  Amounts own{u64{call.gi_profile().memory_mib} << 20, 0, 0};
  for (const ProcessRow& row : call.node().processes(call.index())) {
    if (row.gpu_instance == call.gi().id) own.used += row.bytes;
  }
  own.used = std::min(own.used, own.total);
  return own;
}

Return engine_utilization(std::string_view name, Device device, u32* percent, u32* period_us) {
  return answer(name, device, Accept::kGpu, percent, [period_us](const Call& call, u32& out) {
    constexpr u32 kPeriodUs = 167000;
    if (period_us == nullptr) return kInvalidArgument;
    if (call.mig_on()) return kNotSupported;
    out = 0;
    *period_us = kPeriodUs;
    return kSuccess;
  });
}

}  // namespace

NVML Return nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  return answer(__func__, device, Accept::kGpuOrMig, memory, [](const Call& call, Memory& out) {
    const Amounts now = amounts(call);
    out = {now.total, now.total - now.used, now.used};
  });
}

NVML Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  return answer_versioned(__func__, device, Accept::kGpuOrMig, memory, version_of<MemoryV2>(2),
                          [](const Call& call, MemoryV2& out) {
                            const Amounts now = amounts(call);
                            out.total = now.total;
                            out.reserved = now.reserved;
                            out.free = now.total - now.used;
                            out.used = now.used - std::min(now.reserved, now.used);
                          });
}

NVML Return nvmlDeviceGetBAR1MemoryInfo(Device device, Bar1Memory* memory) {
  return answer(__func__, device, Accept::kGpuOrMig, memory, [](const Call& call, Bar1Memory& out) {
    constexpr u64 kMiB = u64{1} << 20;
    const u64 total = call.profile().bar1_total;
    out = {total, total - std::min(total, kMiB), std::min(total, kMiB)};
  });
}

NVML Return nvmlDeviceGetUtilizationRates(Device device, Utilization* rates) {
  return answer(__func__, device, Accept::kGpuOrMig, rates, [](const Call& call, Utilization& out) {
    if (call.mig_on()) return kNotSupported;
    out = {call.gpu().utilization, call.gpu().memory_utilization};
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetEncoderUtilization(Device device, u32* percent, u32* period_us) {
  return engine_utilization(__func__, device, percent, period_us);
}
NVML Return nvmlDeviceGetDecoderUtilization(Device device, u32* percent, u32* period_us) {
  return engine_utilization(__func__, device, percent, period_us);
}
NVML Return nvmlDeviceGetJpgUtilization(Device device, u32* percent, u32* period_us) {
  return engine_utilization(__func__, device, percent, period_us);
}
NVML Return nvmlDeviceGetOfaUtilization(Device device, u32* percent, u32* period_us) {
  return engine_utilization(__func__, device, percent, period_us);
}

// The real driver keeps a ring of samples; here the newest is the only one.
NVML Return nvmlDeviceGetSamples(Device device, u32 type, u64 last_seen, i32* value_type, u32* count, Sample* samples) {
  return answer(__func__, device, Accept::kGpu, count, [=](const Call& call, u32& out) {
    constexpr u32 kPower = 0, kGpu = 1, kMemory = 2, kProcessorClock = 5, kMemoryClock = 6;
    if (value_type == nullptr) return kInvalidArgument;
    const bool busy = call.gpu().utilization > 0;
    u32 value = 0;
    switch (type) {
      case kPower:
        value = call.gpu().power_mw;
        break;
      case kGpu:
        value = call.gpu().utilization;
        break;
      case kMemory:
        value = call.gpu().memory_utilization;
        break;
      case kProcessorClock:
        value = busy ? call.profile().max_sm_mhz : 345;
        break;
      case kMemoryClock:
        value = call.profile().max_memory_mhz;
        break;
      default:
        return type > 9 ? kInvalidArgument : kNotSupported;
    }
    if (call.mig_on() && (type == kGpu || type == kMemory)) return kNotSupported;
    *value_type = kUnsigned;
    const u64 now = now_us();
    if (samples != nullptr && (out == 0 || last_seen >= now)) return out == 0 ? kInsufficientSize : kNotFound;
    out = 1;
    if (samples == nullptr) return kSuccess;
    samples[0] = {};
    samples[0].time_stamp = now;
    samples[0].value.ui = value;
    return kSuccess;
  });
}

}  // namespace tranche::sim::nvml
