// Field values: many small readings in one call, each entry with its own result code.
#include "telemetry.h"

namespace tranche::sim::nvml {
namespace {

constexpr u32 kEveryLink = 0xffffffff;
constexpr u32 kFirstUnknownField = 303;

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
void put_signed(FieldValue& field, i32 value) {
  field.value_type = kSignedInt;
  field.value.si = value;
  field.result = kSuccess;
}

// False: an unknown field.
bool fill_errors(const Call& call, FieldValue& field) {
  const EccCounts& ecc = call.gpu().ecc;
  const bool has_ecc = call.profile().ecc != 0;
  switch (field.field_id) {
    case 1:
    case 2:
      if (has_ecc) put_u32(field, 1);
      return true;
    case 3:
      if (has_ecc) put_u64(field, ecc.corrected_volatile);
      return true;
    case 4:
      if (has_ecc) put_u64(field, ecc.uncorrected_volatile);
      return true;
    case 5:
      if (has_ecc) put_u64(field, ecc.corrected_aggregate);
      return true;
    case 6:
      if (has_ecc) put_u64(field, ecc.uncorrected_aggregate);
      return true;
    case 94:
    case 95:
      put_u32(field, 0);
      return true;
    case 142:
    case 143:
    case 144:
    case 145:
      if (call.profile().architecture >= 7) put_u32(field, 0);
      return true;
    case 230:
      put_u32(field, call.gpu().recovery_action);
      return true;
    default:
      return false;
  }
}

bool fill_links(const Call& call, FieldValue& field) {
  const u32 count = links_in_use(call) ? call.profile().nvlink_count : 0;
  const bool known_link = field.scope_id < count;
  switch (field.field_id) {
    case 90:
      if (count > 0) put_u32(field, call.profile().nvlink_mbps);
      return true;
    case 91:
      put_u32(field, count);
      return true;
    case 138:
    case 139:
    case 140:
    case 141:
      if (count > 0 && (known_link || field.scope_id == kEveryLink)) put_u64(field, 0);
      return true;
    case 147: {
      const LinkWeb web = topology_links(call.node().topology());
      if (count > 0) put_u32(field, web == LinkWeb::kSwitchVisible || web == LinkWeb::kSwitchHidden ? count : 0);
      return true;
    }
    case 161:
    case 162:
    case 163:
      if (known_link) put_u64(field, 0);
      return true;
    case 164:
      if (known_link) put_u32(field, call.profile().nvlink_mbps);
      return true;
    case 165:
      if (known_link) put_u32(field, link_active(call, field.scope_id) ? 1 : 0);
      return true;
    case 166:
      if (known_link) put_u32(field, call.profile().nvlink_version);
      return true;
    case 170:
      put_u32(field, 0);
      return true;
    default:
      return false;
  }
}

void fill_power(const Call& call, FieldValue& field) {
  const GpuProfile& profile = call.profile();
  const bool whole_gpu = field.scope_id == 0;
  switch (field.field_id) {
    case 82:
      put_u32(field, call.gpu().temperature_c + 5);
      break;
    case 83:
    case 191:
      put_u64(field, energy_mj(call));
      break;
    case 185:
    case 186:
      if (whole_gpu) put_u32(field, call.gpu().power_mw);
      break;
    case 187:
      if (whole_gpu) put_u32(field, profile.power_min_mw);
      break;
    case 188:
      if (whole_gpu) put_u32(field, profile.power_max_mw);
      break;
    case 189:
      if (whole_gpu) put_u32(field, profile.power_default_mw);
      break;
    case 190:
    case 192:
      if (whole_gpu) put_u32(field, call.gpu().power_limit_mw);
      break;
    case 193:
      if (profile.architecture >= 8) put_signed(field, -5);
      break;
    case 194:
      if (profile.architecture >= 8) put_signed(field, -2);
      break;
    case 195:
    case 196:
      if (profile.architecture >= 8) put_signed(field, 0);
      break;
    case 197:
    case 198:
      put_u64(field, 0);
      break;
    case 184:
      put_u32(field, profile.mig.memory_slices != 0 && profile.mig.needs_reset == 0 ? 1 : 0);
      break;
    case 199:
      put_u32(field, profile.mig.memory_slices != 0 && call.driver_major() >= 550 ? 1 : 0);
      break;
    default:
      break;
  }
}

void fill(const Call& call, FieldValue& field) {
  field.timestamp = static_cast<i64>(now_us());
  field.latency_us = 0;
  field.value.ull = 0;  // readers may read more bytes than the type has
  field.value_type = kUnsigned;
  const bool unknown = field.field_id == 0 || field.field_id >= kFirstUnknownField;
  field.result = unknown ? kInvalidArgument : kNotSupported;
  if (unknown || fill_errors(call, field) || fill_links(call, field)) return;
  fill_power(call, field);
}

}  // namespace

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
