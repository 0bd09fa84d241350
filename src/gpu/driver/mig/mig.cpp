#include "gpu/driver/mig/mig.h"

#include <array>

#include "gpu/inventory/inventory.h"
#include "gpu/mig/state.h"

namespace tranche::gpu::nvml {
namespace {

std::string suffix_of(const Functions& f, Device parent, Device mig, std::uint32_t gpu_instance) {
  GpuInstance instance = nullptr;
  GpuInstanceInfo info{};
  if (call(f.gpu_instance_by_id, parent, gpu_instance, &instance) == Return::kSuccess &&
      call(f.gpu_instance_info, instance, &info) == Return::kSuccess) {
    std::optional<std::string_view> suffix;
    each_profile(f, parent, [&](std::uint32_t number, const GpuInstanceProfileInfo& profile) {
      if (profile.id == info.profile_id) suffix = profile_suffix(number);
      return suffix.has_value();
    });
    if (suffix) return std::string(*suffix);
  }
  // For a caller without permission on GPU instances: the driver's name of the device ends in the suffix.
  std::string name;
  read_text(f.name, mig, name);
  const std::size_t at = name.rfind("gb");
  return at == std::string::npos ? std::string() : name.substr(at + 2);
}

Result<MigDevice> read_mig_device(const Library& library, Device parent, Device mig, std::uint32_t slot,
                                  const Gpu& gpu) {
  const Functions& f = library.functions();
  MigDevice device;
  device.slot = slot;
  TRY_STATUS(library.check(read_text(f.uuid, mig, device.uuid), "it does not answer", "nvmlDeviceGetUUID"));
  // The placement is needed only to attribute events, so a device without one is listed nevertheless.
  const auto gi = reported(f.gpu_instance_id, mig);
  const auto ci = reported(f.compute_instance_id, mig);
  device.gpu_instance = ci ? gi.value_or(kNoInstance) : kNoInstance;
  device.compute_instance = gi ? ci.value_or(kNoInstance) : kNoInstance;
  DeviceAttributes attributes{};
  TRY_STATUS(library.check(call(f.attributes, mig, &attributes), "it does not answer", "nvmlDeviceGetAttributes"));
  device.memory = {reported(f.memory, mig).value_or(Memory{}).total};
  device.nominal_memory = mib(attributes.memory_size_mib);
  if (device.memory.value == 0) device.memory = device.nominal_memory;
  device.sm_count = attributes.multiprocessor_count;
  device.gi_slices = attributes.gpu_instance_slice_count;
  device.ci_slices = attributes.compute_instance_slice_count;
  device.engines = {attributes.shared_copy_engine_count, attributes.shared_decoder_count,
                    attributes.shared_encoder_count, attributes.shared_jpeg_count, attributes.shared_ofa_count};
  device.profile = profile_text(device.gi_slices, device.ci_slices, attributes.memory_size_mib, gpu.memory.value,
                                suffix_of(f, parent, mig, device.gpu_instance));
  return device;
}

}  // namespace

std::string profile_text(std::uint32_t gi_slices, std::uint32_t ci_slices, std::uint64_t memory_mib,
                         std::uint64_t parent_bytes, std::string_view suffix) {
  std::uint64_t gigabytes = 0;
  if (parent_bytes != 0) {
    // H200: 71424 MiB of 143771 are 4 of 8 parts, 4·141/8 = 70.5 → 71 (half away from zero).
    const std::uint64_t eighths = (8 * (memory_mib << 20) + parent_bytes - 1) / parent_bytes;
    const std::uint64_t whole = (parent_bytes + (1ull << 30) - 1) >> 30;
    gigabytes = (eighths * whole + 4) / 8;
  }
  return to_string(mig::ProfileName{ci_slices, gi_slices, static_cast<std::uint32_t>(gigabytes), std::string(suffix)});
}

std::string_view profile_suffix(std::uint32_t profile_number) {
  static constexpr std::array<std::string_view, kGpuInstanceProfiles> kSuffixes{
      "", "", "", "", "", "", "", "+me", "+me", "", "+gfx", "+gfx", "+gfx", "-me", "-me", "+me.all", "+me.all", "+gfx"};
  return profile_number < kSuffixes.size() ? kSuffixes.at(profile_number) : std::string_view();
}

Status read_mig(const Library& library, Device device, Gpu& gpu, std::vector<std::string>& unreadable) {
  const Functions& f = library.functions();
  std::uint32_t current = 0, pending = 0;
  const Return code = call(f.mig_mode, device, &current, &pending);
  if (code == Return::kGpuIsLost)
    return std::unexpected(library.error(code, "cannot read the MIG mode", "nvmlDeviceGetMigMode"));
  gpu.mig_capable = code == Return::kSuccess;
  gpu.mig_enabled = gpu.mig_capable && current == 1;
  if (!gpu.mig_enabled) return {};
  call(f.max_mig_devices, device, &gpu.max_mig_devices);
  for (std::uint32_t slot = 0; slot < gpu.max_mig_devices; ++slot) {
    Device mig = nullptr;
    const Return found = call(f.mig_device_by_index, device, slot, &mig);
    if (found == Return::kNotFound) continue;  // an emptied slot: later ones may be in use
    if (found == Return::kInvalidArgument) break;
    const std::string which = "MIG device " + std::to_string(gpu.index) + ":" + std::to_string(slot);
    if (found != Return::kSuccess) {
      unreadable.push_back(
          to_string(library.error(found, which + " does not answer", "nvmlDeviceGetMigDeviceHandleByIndex")));
      continue;
    }
    Result<MigDevice> mig_device = read_mig_device(library, device, mig, slot, gpu);
    if (mig_device) {
      gpu.mig_devices.push_back(*std::move(mig_device));
    } else {
      unreadable.push_back(to_string(within(std::move(mig_device).error(), which)));
    }
  }
  return {};
}

}  // namespace tranche::gpu::nvml
