// Clocks, power, temperature, errors.
#include <chrono>

#include "telemetry.h"

namespace tranche::sim::nvml {
namespace {

constexpr u32 kClockTypes = 4, kMemoryClock = 2, kIdleMhz = 345;

Return clock_reasons(std::string_view name, Device device, u64* reasons) {
  return answer(name, device, Accept::kGpu, reasons, [](const Call& call, u64& out) {
    constexpr u64 kIdle = 1;
    out = call.gpu().utilization == 0 ? kIdle : 0;
  });
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
  return answer(__func__, device, Accept::kGpu, mhz, [type](const Call& call, u32& out) {
    if (type >= kClockTypes) return kInvalidArgument;
    out = type == kMemoryClock ? memory_clock_mhz(call) : sm_clock_mhz(call);
    return kSuccess;
  });
}
NVML Return nvmlDeviceGetCurrentClocksEventReasons(Device device, u64* reasons) {
  return clock_reasons(__func__, device, reasons);
}
NVML Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, u64* reasons) {
  return clock_reasons(__func__, device, reasons);
}
NVML Return nvmlDeviceGetPowerUsage(Device device, u32* mw) {
  return answer(__func__, device, Accept::kGpu, mw, [](const Call& call, u32& out) { out = call.gpu().power_mw; });
}
NVML Return nvmlDeviceGetTemperature(Device device, u32 sensor, u32* degrees) {
  return answer(__func__, device, Accept::kGpu, degrees, [sensor](const Call& call, u32& out) {
    if (sensor != 0) return kInvalidArgument;
    out = call.gpu().temperature_c;
    return kSuccess;
  });
}
NVML Return nvmlDeviceGetTemperatureV(Device device, Temperature* temperature) {
  return answer_versioned(__func__, device, Accept::kGpu, temperature, version_of<Temperature>(1),
                          [](const Call& call, Temperature& out) {
                            if (out.sensor != 0) return kInvalidArgument;
                            out.degrees = static_cast<std::int32_t>(call.gpu().temperature_c);
                            return kSuccess;
                          });
}

}  // namespace tranche::sim::nvml
