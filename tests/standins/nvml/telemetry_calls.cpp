// Clocks, power, temperature, errors.
#include <chrono>

#include "telemetry.h"

namespace tranche::sim::nvml {
namespace {

constexpr u32 kClockTypes = 4, kMemoryClock = 2, kIdleMhz = 345;

Return clock_of(std::string_view name, Device device, u32 type, u32* mhz, bool highest) {
  return answer(name, device, Accept::kGpu, mhz, [=](const Call& call, u32& out) {
    if (type >= kClockTypes) return kInvalidArgument;
    if (type == kMemoryClock) {
      out = call.profile().max_memory_mhz;
    } else {
      out = highest ? call.profile().max_sm_mhz : sm_clock_mhz(call);
    }
    return kSuccess;
  });
}

Return clock_reasons(std::string_view name, Device device, u64* reasons) {
  return answer(name, device, Accept::kGpu, reasons, [](const Call& call, u64& out) {
    constexpr u64 kIdle = 1;
    out = call.gpu().utilization == 0 ? kIdle : 0;
  });
}

Return supported_clock_reasons(std::string_view name, Device device, u64* reasons) {
  return answer(name, device, Accept::kGpu, reasons, [](const Call&, u64& out) { out = 0x1ff; });
}

u64 ecc_count(const EccCounts& ecc, u32 type, u32 counter) {
  if (type == 0) return counter == 0 ? ecc.corrected_volatile : ecc.corrected_aggregate;
  return counter == 0 ? ecc.uncorrected_volatile : ecc.uncorrected_aggregate;
}

}  // namespace

u32 sm_clock_mhz(const Call& call) {
  return call.gpu().utilization > 0 ? call.profile().max_sm_mhz : kIdleMhz;
}
u32 memory_clock_mhz(const Call& call) {
  return call.profile().max_memory_mhz;
}

// As if the GPU had drawn its first power since the machine's start, and each later one since it was set.
u64 energy_mj(const Call& call) {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_boot).count();
  const auto& gpu = call.gpu();
  return gpu.energy_mj + (static_cast<u64>(ms) - gpu.power_since_ms) * gpu.power_mw / 1000;
}

NVML Return nvmlDeviceGetClockInfo(Device device, u32 type, u32* mhz) {
  return clock_of(__func__, device, type, mhz, false);
}
NVML Return nvmlDeviceGetMaxClockInfo(Device device, u32 type, u32* mhz) {
  return clock_of(__func__, device, type, mhz, true);
}
NVML Return nvmlDeviceGetClock(Device device, u32 type, u32 id, u32* mhz) {
  constexpr u32 kCurrent = 0, kIds = 4;
  if (const Call call("nvmlDeviceGetClock", device, Accept::kGpu); call.refusal() != kSuccess) return call.refusal();
  if (id >= kIds) return kInvalidArgument;
  return clock_of(__func__, device, type, mhz, id != kCurrent);
}
NVML Return nvmlDeviceGetCurrentClocksEventReasons(Device device, u64* reasons) {
  return clock_reasons(__func__, device, reasons);
}
NVML Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, u64* reasons) {
  return clock_reasons(__func__, device, reasons);
}
NVML Return nvmlDeviceGetSupportedClocksEventReasons(Device device, u64* reasons) {
  return supported_clock_reasons(__func__, device, reasons);
}
NVML Return nvmlDeviceGetSupportedClocksThrottleReasons(Device device, u64* reasons) {
  return supported_clock_reasons(__func__, device, reasons);
}

NVML Return nvmlDeviceGetPerformanceState(Device device, u32* state) {
  return answer(__func__, device, Accept::kGpu, state, [](const Call&, u32& out) { out = 0; });
}
NVML Return nvmlDeviceGetPowerState(Device device, u32* state) {
  return answer(__func__, device, Accept::kGpu, state, [](const Call&, u32& out) { out = 0; });
}
NVML Return nvmlDeviceGetPowerUsage(Device device, u32* mw) {
  return answer(__func__, device, Accept::kGpu, mw, [](const Call& call, u32& out) { out = call.gpu().power_mw; });
}
NVML Return nvmlDeviceGetTotalEnergyConsumption(Device device, u64* mj) {
  return answer(__func__, device, Accept::kGpu, mj, [](const Call& call, u64& out) { out = energy_mj(call); });
}

NVML Return nvmlDeviceGetTemperature(Device device, u32 sensor, u32* degrees) {
  return answer(__func__, device, Accept::kGpu, degrees, [sensor](const Call& call, u32& out) {
    if (sensor != 0) return kInvalidArgument;
    out = call.gpu().temperature_c;
    return kSuccess;
  });
}
NVML Return nvmlDeviceGetTemperatureV(Device device, TemperatureV1* temperature) {
  return answer_versioned(__func__, device, Accept::kGpu, temperature, version_of<TemperatureV1>(1),
                          [](const Call& call, TemperatureV1& out) {
                            if (out.sensor != 0) return kInvalidArgument;
                            out.temperature = static_cast<i32>(call.gpu().temperature_c);
                            return kSuccess;
                          });
}
NVML Return nvmlDeviceGetTemperatureThreshold(Device device, u32 which, u32* degrees) {
  return answer(__func__, device, Accept::kGpu, degrees, [which](const Call& call, u32& out) {
    constexpr u32 kShutdown = 0, kSlowdown = 1, kThresholds = 8;
    if (which >= kThresholds) return kInvalidArgument;
    if (which == kShutdown) out = call.profile().shutdown_c;
    if (which == kSlowdown) out = call.profile().slowdown_c;
    return which <= kSlowdown && call.profile().slowdown_c != 0 ? kSuccess : kNotSupported;
  });
}
NVML Return nvmlDeviceGetMarginTemperature(Device device, MarginTemperature* margin) {
  return answer_versioned(__func__, device, Accept::kGpu, margin, version_of<MarginTemperature>(1),
                          [](const Call& call, MarginTemperature& out) {
                            constexpr i32 kUsualLimit = 87;
                            const u32 limit = call.profile().slowdown_c;
                            out.margin = (limit != 0 ? static_cast<i32>(limit) : kUsualLimit) -
                                         static_cast<i32>(call.gpu().temperature_c);
                          });
}

NVML Return nvmlDeviceGetPcieThroughput(Device device, u32 counter, u32* kbps) {
  return answer(__func__, device, Accept::kGpu, kbps, [counter](const Call&, u32& out) {
    out = 0;
    return counter > 1 ? kInvalidArgument : kSuccess;
  });
}
NVML Return nvmlDeviceGetPcieReplayCounter(Device device, u32* count) {
  return answer(__func__, device, Accept::kGpu, count, [](const Call&, u32& out) { out = 0; });
}

NVML Return nvmlDeviceGetTotalEccErrors(Device device, u32 type, u32 counter, u64* count) {
  return answer(__func__, device, Accept::kGpu, count, [=](const Call& call, u64& out) {
    if (type > 1 || counter > 1) return kInvalidArgument;
    if (call.profile().ecc == 0) return kNotSupported;
    out = ecc_count(call.gpu().ecc, type, counter);
    return kSuccess;
  });
}
NVML Return nvmlDeviceGetMemoryErrorCounter(Device device, u32 type, u32 counter, u32 location, u64* count) {
  return answer(__func__, device, Accept::kGpu, count, [=](const Call& call, u64& out) {
    constexpr u32 kDram = 2, kLocations = 8;
    if (type > 1 || counter > 1 || location >= kLocations) return kInvalidArgument;
    if (call.profile().ecc == 0) return kNotSupported;
    out = location == kDram ? ecc_count(call.gpu().ecc, type, counter) : 0;
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetRemappedRows(Device device, u32* corrected, u32* uncorrected, u32* pending, u32* failed) {
  return answer(__func__, device, Accept::kGpu, corrected, [=](const Call& call, u32& out) {
    constexpr u32 kAmpere = 7;
    if (uncorrected == nullptr || pending == nullptr || failed == nullptr) return kInvalidArgument;
    if (call.profile().architecture < kAmpere || !mig_devices(call.gpu()).empty()) return kNotSupported;
    out = *uncorrected = *pending = *failed = 0;
    return kSuccess;
  });
}

NVML Return nvmlDeviceGetRetiredPages(Device device, u32 cause, u32* count, u64*) {
  return answer(__func__, device, Accept::kGpu, count, [cause](const Call& call, u32& out) {
    constexpr u32 kAmpere = 7;
    if (cause > 1) return kInvalidArgument;
    out = 0;
    return call.profile().architecture < kAmpere ? kSuccess : kNotSupported;
  });
}
NVML Return nvmlDeviceGetRetiredPagesPendingStatus(Device device, u32* pending) {
  return answer(__func__, device, Accept::kGpu, pending, [](const Call& call, u32& out) {
    constexpr u32 kAmpere = 7;
    out = 0;
    return call.profile().architecture < kAmpere ? kSuccess : kNotSupported;
  });
}

NVML Return nvmlDeviceValidateInforom(Device device) {
  return Call(__func__, device, Accept::kGpu).refusal();
}

}  // namespace tranche::sim::nvml
