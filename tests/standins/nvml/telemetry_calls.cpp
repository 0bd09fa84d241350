// Clocks, power, temperature, errors; and field values: many small readings in one call, each entry with its own result
// code.
#include <chrono>

#include "session.h"

namespace tranche::sim::nvml {
namespace {

constexpr u32 kClockTypes = 4, kMemoryClock = 2, kIdleMhz = 345;

Return clock_reasons(std::string_view name, Device device, u64* reasons) {
  return answer(name, device, Accept::kGpu, reasons, [](const Call& call, u64& out) {
    constexpr u64 kIdle = 1;
    out = call.gpu().utilization == 0 ? kIdle : 0;
  });
}

// As if the GPU had drawn its first power since the machine's start, and each later one since it was set.
u64 energy_mj(const Call& call) {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_boot).count();
  const auto& gpu = call.gpu();
  return gpu.energy_mj + (static_cast<u64>(ms) - gpu.power_since_ms) * gpu.power_mw / 1000;
}

void put_u32(FieldValue& field, u32 value) {
  field.value_type = kUnsigned;
  field.value.ui = value;
  field.result = kSuccess;
}
void put_u64(FieldValue& field, u64 value) {
  field.value_type = kUnsignedLongLong;
  field.value.ull = value;
  field.result = kSuccess;
}

// The fields that the product reads; every other is not supported.
void fill(const Call& call, FieldValue& field) {
  const GpuState& gpu = call.gpu();
  const bool has_ecc = call.profile().ecc != 0;
  field.timestamp = field.latency_us = 0;
  field.value.ull = 0;  // readers may read more bytes than the type has
  field.value_type = kUnsigned;
  field.result = kNotSupported;
  switch (field.field_id) {
    case 3:
      if (has_ecc) put_u64(field, gpu.ecc.corrected_volatile);
      break;
    case 4:
      if (has_ecc) put_u64(field, gpu.ecc.uncorrected_volatile);
      break;
    case 82:
      put_u32(field, gpu.temperature_c + 5);  // of the memory
      break;
    case 83:
      put_u64(field, energy_mj(call));
      break;
    case 192:
      if (field.scope_id == 0) put_u32(field, call.profile().power_max_mw);  // of the whole GPU
      break;
    case 230:
      put_u32(field, gpu.recovery_action);
      break;
    default:
      break;
  }
}

}  // namespace

NVML Return nvmlDeviceGetClockInfo(Device device, u32 type, u32* mhz) {
  return answer(__func__, device, Accept::kGpu, mhz, [type](const Call& call, u32& out) {
    if (type >= kClockTypes) return kInvalidArgument;
    const u32 sm_mhz = call.gpu().utilization > 0 ? call.profile().max_sm_mhz : kIdleMhz;
    out = type == kMemoryClock ? call.profile().max_memory_mhz : sm_mhz;
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

NVML Return nvmlDeviceGetFieldValues(Device device, i32 count, FieldValue* fields) {
  return answer(__func__, device, Accept::kGpu, fields, [count](const Call& call, FieldValue& first) -> Return {
    if (count <= 0) return kInvalidArgument;
    bool any = false;
    for (FieldValue* field = &first; field != &first + count; ++field) {
      fill(call, *field);
      any = any || field->result == kSuccess;
    }
    return any ? kSuccess : first.result;
  });
}

}  // namespace tranche::sim::nvml
