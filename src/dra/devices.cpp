#include "dra/devices.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/shares.h"

namespace tranche::dra {
namespace {

using inventory::Gpu;
using inventory::Inventory;

constexpr inventory::ComputeCapability kFirstWithLimits{7, 0};  // Volta: MPS has memory and SM limits from here on

std::string name_of(const Gpu& gpu, Kind kind) {
  const std::string whole = "gpu-" + std::to_string(gpu.index);
  return kind == Kind::kWhole ? whole : whole + "-" + std::string(to_string(kind));
}

Device device_of(const Inventory& inventory, const Gpu& gpu, Kind kind) {
  Device device;
  device.name = name_of(gpu, kind);
  device.kind = kind;
  device.gpu_uuid = gpu.uuid;
  device.index = gpu.index;
  device.minor = gpu.minor;
  device.memory = gpu.memory;
  device.sms = gpu.sm_count;
  device.compute_capability = gpu.compute_capability;
  device.product = gpu.name;
  device.pci_bus_id = gpu.pci_bus_id;
  device.pcie_root = gpu.pcie_root;
  device.numa_node = gpu.numa_node;
  device.driver_version = inventory.driver_version;
  device.cuda_driver_version = inventory.cuda_driver_version;
  return device;
}

// "" = the GPU can be shared by limits.
std::string why_not_shared(const Gpu& gpu, Bytes divisible) {
  if (gpu.memory.value == 0) return "the driver does not report its memory";
  if (gpu.compute_capability.major != 0 && gpu.compute_capability < kFirstWithLimits)
    return "MPS has no limits before compute capability 7.0";
  if (divisible < kMemoryLeast + kMemoryStep)
    return fmt::format("its memory without sharing.mps.reserve, {}, is less than the smallest share",
                       to_string(divisible));
  return "";
}

std::uint32_t cores_least(std::uint32_t sms) {
  return sms == 0 ? 1 : (plan::threads_for(plan::kFewestSms, sms).hundredths + 99) / 100;
}

void add_gpu(const config::Config& config, const Inventory& inventory, const Gpu& gpu, Devices& devices) {
  const std::string which = fmt::format("GPU {} ({})", gpu.index, gpu.uuid);
  if (gpu.mig_enabled) {
    devices.notes.push_back(which + " is in MIG mode, and MIG devices are not offered through DRA");
    return;
  }
  const Bytes divisible = plan::divisible(gpu.memory, plan::reserve_of(config.sharing.reserve, false));
  if (const std::string why = why_not_shared(gpu, divisible); why.empty()) {
    Device shared = device_of(inventory, gpu, Kind::kShared);
    shared.memory = divisible;
    shared.cores_least = cores_least(gpu.sm_count);
    devices.list.push_back(std::move(shared));
  } else {
    devices.notes.push_back(which + " is offered only as a whole: " + why);
  }
  devices.list.push_back(device_of(inventory, gpu, Kind::kWhole));
  devices.list.push_back(device_of(inventory, gpu, Kind::kMonitor));
}

}  // namespace

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kWhole:
      return "gpu";
    case Kind::kShared:
      return "shared";
    case Kind::kMonitor:
      return "monitor";
  }
  return "";
}

Devices devices_of(const config::Config& config, const Inventory& inventory,
                   const std::map<std::string, health::Unhealthy>& faults) {
  Devices devices;
  if (config.dra.devices == config::DraDevices::kNone) return devices;
  if (inventory.platform != inventory::Platform::kNvml) {
    devices.notes.push_back(
        fmt::format("the GPUs of platform {} are not offered through DRA", to_string(inventory.platform)));
    return devices;
  }
  std::vector<const Gpu*> gpus;
  for (const Gpu& gpu : inventory.gpus)
    if (!inventory::is_display_gpu(gpu)) gpus.push_back(&gpu);
  std::ranges::sort(gpus, {}, &Gpu::index);
  for (const Gpu* gpu : gpus) add_gpu(config, inventory, *gpu, devices);
  for (Device& device : devices.list)
    if (const auto fault = faults.find(device.gpu_uuid); fault != faults.end()) device.fault = fault->second;
  return devices;
}

const Device* find_device(const std::vector<Device>& devices, std::string_view name) {
  const auto at = std::ranges::find(devices, name, &Device::name);
  return at == devices.end() ? nullptr : &*at;
}

}  // namespace tranche::dra
