#include "host/nvml/scan.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "host/nvml/mig.h"
#include "host/nvml/sysfs.h"
#include "host/nvml/topology.h"

namespace tranche::host::nvml {
namespace {

template <class F, std::size_t N>
Return read_text(F* function, Device device, std::array<char, N>& buffer, std::string& text) {
  buffer.fill('\0');
  const Return code = call(function, device, buffer.data(), static_cast<std::uint32_t>(N - 1));
  if (code == Return::kSuccess) text = buffer.data();
  return code;
}

std::string clique_of(const Functions& f, Device device) {
  const auto name = [](const std::uint8_t(&uuid)[16], std::int32_t status, std::uint8_t state, std::uint32_t clique) {
    const bool set = std::any_of(std::begin(uuid), std::end(uuid), [](std::uint8_t b) { return b != 0; });
    if (state != kFabricCompleted || status != 0 || !set) return std::string();
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (std::size_t i = 0; i < 16; ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
      text += kDigits[uuid[i] >> 4];
      text += kDigits[uuid[i] & 15];
    }
    return text + "." + std::to_string(clique);
  };
  FabricInfo info{};
  if (call(f.fabric_info, device, &info) == Return::kSuccess) {
    return name(info.cluster_uuid, info.status, info.state, info.clique_id);
  }
  FabricInfoV2 info_v{};
  info_v.version = kFabricInfoV2Version;
  if (call(f.fabric_info_v, device, &info_v) == Return::kSuccess) {
    return name(info_v.cluster_uuid, info_v.status, info_v.state, info_v.clique_id);
  }
  return {};
}

void read_pci(const Functions& f, Device device, const std::string& root, inventory::Gpu& gpu) {
  PciInfo pci{};
  if (call(f.pci_info, device, &pci) == Return::kSuccess) {
    pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
    gpu.pci_bus_id = pci.bus_id;
  }
  PciInfoExt ext{};
  ext.version = kPciInfoExtVersion;
  if (call(f.pci_info_ext, device, &ext) == Return::kSuccess) {
    gpu.pci_class = ((ext.base_class & 0xff) << 16) | ((ext.sub_class & 0xff) << 8);
  } else if (const std::optional<std::uint32_t> pci_class = pci_class_of(root, gpu.pci_bus_id)) {
    gpu.pci_class = *pci_class;
  }
  gpu.numa_node = numa_node_of(root, gpu.pci_bus_id);
}

void read_size(const Functions& f, Device device, inventory::Gpu& gpu) {
  Memory memory{};
  if (call(f.memory, device, &memory) == Return::kSuccess) gpu.memory = {memory.total};
  std::int32_t major = 0, minor = 0;
  if (call(f.compute_capability, device, &major, &minor) == Return::kSuccess) gpu.compute_capability = {major, minor};
  std::uint32_t cores = 0;
  if (call(f.cuda_cores, device, &cores) == Return::kSuccess) {
    gpu.sm_count = inventory::sm_count_from_cores(cores, gpu.compute_capability);
  }
  std::int32_t mode = 0;
  if (call(f.compute_mode, device, &mode) == Return::kSuccess && mode >= 0 && mode <= 3) {
    gpu.compute_mode = static_cast<inventory::ComputeMode>(mode);
  }
}

Result<inventory::Gpu> read_gpu(const Library& library, Device device, std::uint32_t index, const std::string& root,
                                std::vector<std::string>& unreadable) {
  const Functions& f = library.functions();
  inventory::Gpu gpu;
  gpu.index = index;
  std::array<char, kUuidLength> uuid{};
  if (const Return code = read_text(f.uuid, device, uuid, gpu.uuid); code != Return::kSuccess) {
    return std::unexpected(library.error(code, "it does not answer", "nvmlDeviceGetUUID"));
  }
  std::array<char, kNameLength> name{};
  if (const Return code = read_text(f.name, device, name, gpu.name); code == Return::kGpuIsLost) {
    return std::unexpected(library.error(code, "it does not answer", "nvmlDeviceGetName"));
  }
  // Integrated GPUs have no minor number; discrete ones may have one that differs from the index.
  if (call(f.minor_number, device, &gpu.minor) != Return::kSuccess) gpu.minor = index;
  read_pci(f, device, root, gpu);
  read_size(f, device, gpu);
  TRY_STATUS(read_mig(library, device, gpu, unreadable));
  gpu.fabric_clique = clique_of(f, device);
  return gpu;
}

std::string name_of_missing(std::uint32_t index, const std::vector<Held>& known) {
  const auto it = std::find_if(known.begin(), known.end(), [index](const Held& held) { return held.index == index; });
  return "GPU " + std::to_string(index) + (it != known.end() ? " (" + it->uuid + ")" : "");
}

}  // namespace

Result<Scan> scan_node(const Library& library, const std::string& root, const std::vector<Held>& known) {
  const Functions& f = library.functions();
  Scan scan;
  inventory::Inventory& node = scan.inventory;
  std::array<char, kVersionLength> version{};
  if (call(f.driver_version, version.data(), static_cast<std::uint32_t>(version.size() - 1)) == Return::kSuccess) {
    node.driver_version = version.data();
  }
  std::int32_t cuda = 0;
  if (call(f.cuda_driver_version, &cuda) == Return::kSuccess) node.cuda_driver_version = cuda;

  std::uint32_t count = 0;
  if (const Return code = call(f.device_count, &count); code != Return::kSuccess) {
    return std::unexpected(library.error(code, "cannot count the GPUs", "nvmlDeviceGetCount"));
  }
  for (std::uint32_t index = 0; index < count; ++index) {
    Device device = nullptr;
    if (const Return code = call(f.device_by_index, index, &device); code != Return::kSuccess) {
      scan.missing.push_back({index, code == Return::kGpuIsLost});
      node.unreadable.push_back(to_string(
          library.error(code, name_of_missing(index, known) + " does not answer", "nvmlDeviceGetHandleByIndex")));
      continue;
    }
    Result<inventory::Gpu> gpu = read_gpu(library, device, index, root, node.unreadable);
    if (!gpu) {
      scan.missing.push_back({index, gpu.error().code == static_cast<int>(Return::kGpuIsLost)});
      node.unreadable.push_back(to_string(within(std::move(gpu).error(), name_of_missing(index, known))));
      continue;
    }
    scan.held.push_back({gpu->uuid, index, device, gpu->mig_enabled});
    node.gpus.push_back(*std::move(gpu));
  }
  node.links = read_links(library, scan.held, node.gpus);
  return scan;
}

}  // namespace tranche::host::nvml
