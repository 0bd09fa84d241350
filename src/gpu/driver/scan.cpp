#include "gpu/driver/driver.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "gpu/driver/kernel_signs.h"
#include "gpu/driver/mig/mig.h"
#include "gpu/platform/platform.h"
#include "os/files/files.h"

namespace tranche::gpu::nvml {
namespace {

// For each other GPU, the number of active links of `from` that end there. Links into a switch end at the switch's
// address, or at FFFFFFFF:FF:FF.0 if a virtual machine hides it, and so are not counted for any GPU.
std::vector<std::uint32_t> direct_links(const Functions& f, Device from, const std::vector<Gpu>& gpus) {
  std::vector<std::uint32_t> links(gpus.size(), 0);
  for (std::uint32_t link = 0; link < kMaxNvLinks; ++link) {
    std::int32_t state = 0;
    const Return code = call(f.nvlink_state, from, link, &state);
    if (code == Return::kInvalidArgument || code == Return::kNotSupported || code == Return::kGpuIsLost) break;
    if (code != Return::kSuccess || state != kEnabled) continue;
    std::uint32_t type = kRemoteIsGpu;
    if (call(f.nvlink_remote_type, from, link, &type) == Return::kSuccess && type != kRemoteIsGpu) continue;
    PciInfo remote{};
    if (call(f.nvlink_remote_pci, from, link, &remote) != Return::kSuccess) continue;
    remote.bus_id[sizeof(remote.bus_id) - 1] = '\0';
    const auto it =
        std::find_if(gpus.begin(), gpus.end(), [&remote](const Gpu& gpu) { return gpu.pci_bus_id == remote.bus_id; });
    if (it != gpus.end()) ++links[static_cast<std::size_t>(it - gpus.begin())];
  }
  return links;
}

// How close the GPUs are to each other: the PCIe level of their common ancestor, and the active NVLinks that connect
// two of them directly. Every pair once, a < b; indices into `gpus`, which is in the order of `held`.
std::vector<GpuLink> read_links(const Library& library, const std::vector<Held>& held, const std::vector<Gpu>& gpus) {
  const Functions& f = library.functions();
  constexpr std::int32_t kSystem = 50;
  std::vector<GpuLink> links;
  for (std::uint32_t a = 0; a < held.size(); ++a) {
    const std::vector<std::uint32_t> direct =
        held.size() > 1 ? direct_links(f, held[a].device, gpus) : std::vector<std::uint32_t>{};
    for (std::uint32_t b = a + 1; b < held.size(); ++b) {
      std::int32_t level = kSystem;
      if (call(f.common_ancestor, held[a].device, held[b].device, &level) != Return::kSuccess) level = kSystem;
      links.push_back({a, b, level, direct[b]});
    }
  }
  return links;
}

// The device nodes that open MIG instances, from the driver's table.
void find_mig_nodes(const std::string& root, Inventory& node) {
  if (std::ranges::all_of(node.gpus, [](const Gpu& gpu) { return gpu.mig_devices.empty(); })) return;
  const std::string path = os::under_root(root, "/proc/driver/nvidia-caps/mig-minors");
  if (const auto text = os::read_file(path))
    set_mig_nodes(*text, path, node);
  else
    node.doubts.push_back(to_string(within(text.error(), "it is not known which device nodes open MIG devices")));
}

std::string clique_of(const Functions& f, Device device) {
  const auto name = [](const std::uint8_t(&uuid)[16], std::int32_t status, std::uint8_t state, std::uint32_t clique) {
    const bool set = std::any_of(std::begin(uuid), std::end(uuid), [](std::uint8_t b) { return b != 0; });
    if (state != kFabricCompleted || status != 0 || !set) return std::string();
    return uuid_text(uuid) + "." + std::to_string(clique);
  };
  if (const auto info = reported(f.fabric_info, device))
    return name(info->cluster_uuid, info->status, info->state, info->clique_id);
  FabricInfoV2 info_v{};
  info_v.version = kFabricInfoV2Version;
  if (call(f.fabric_info_v, device, &info_v) == Return::kSuccess) {
    return name(info_v.cluster_uuid, info_v.status, info_v.state, info_v.clique_id);
  }
  return {};
}

// Reads one GPU. A value that it does not report is added to the node's doubts: the GPU is served and the doubt shown.
// root: prefix of /sys. a_node_for_each: every GPU has a /dev/nvidia<minor>; false under WSL.
Result<Gpu> read_gpu(const Library& library, Device device, std::uint32_t index, const std::string& root,
                     bool a_node_for_each, Inventory& node) {
  const Functions& f = library.functions();
  Gpu gpu;
  gpu.index = index;
  const auto doubt = [&](const Error& error) { node.doubts.push_back(name_of(gpu) + ": " + to_string(error)); };
  const auto reports = [&](Return code, const char* what, const char* where) {
    if (code != Return::kSuccess) doubt(library.error(code, what, where));
    return code == Return::kSuccess;
  };
  TRY_STATUS(library.check(read_text(f.uuid, device, gpu.uuid), "it does not answer", "nvmlDeviceGetUUID"));
  if (const Return code = read_text(f.name, device, gpu.name); code == Return::kGpuIsLost)
    return std::unexpected(library.error(code, "it does not answer", "nvmlDeviceGetName"));

  // Without the minor the agent cannot know which device node belongs to this GPU, and a guess could give a tenant a
  // wrong GPU. It does not matter where GPUs have no nodes of their own (WSL, integrated GPUs).
  const Return minor_code = call(f.minor_number, device, &gpu.minor);
  if (minor_code != Return::kSuccess) gpu.minor = index;
  if (a_node_for_each && !is_integrated_gpu(gpu.name))
    TRY_STATUS(library.check(minor_code, "the driver does not report which device node is its own",
                             "nvmlDeviceGetMinorNumber"));

  auto pci = reported(f.pci_info, device).value_or(PciInfo{});
  pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
  gpu.pci_bus_id = pci.bus_id;
  PciInfoExt ext{};
  ext.version = kPciInfoExtVersion;
  if (call(f.pci_info_ext, device, &ext) == Return::kSuccess)
    gpu.pci_class = ((ext.base_class & 0xff) << 16) | ((ext.sub_class & 0xff) << 8);
  else  // 0 is unknown: the label gpu.mode is then "unknown", as NVIDIA's is
    gpu.pci_class = pci_class_of(root, gpu.pci_bus_id).value_or(0);
  gpu.pcie_root = pcie_root_of(root, gpu.pci_bus_id);
  if (auto numa_node = numa_node_of(root, gpu.pci_bus_id))
    gpu.numa_node = *numa_node;
  else
    doubt(within(std::move(numa_node).error(), "it is served without a NUMA node"));

  Memory memory{};
  if (reports(call(f.memory, device, &memory), "the driver does not report its memory size", "nvmlDeviceGetMemoryInfo"))
    gpu.memory = {memory.total};
  std::int32_t major = 0, minor = 0;
  if (reports(call(f.compute_capability, device, &major, &minor), "the driver does not report its compute capability",
              "nvmlDeviceGetCudaComputeCapability"))
    gpu.compute_capability = {major, minor};
  gpu.sm_count = sm_count_from_cores(reported(f.cuda_cores, device).value_or(0), gpu.compute_capability);
  gpu.compute_mode = compute_mode_of(f, device);
  TRY_STATUS(read_mig(library, device, gpu, node.unreadable));
  gpu.fabric_clique = clique_of(f, device);
  return gpu;
}

std::string name_of_missing(std::uint32_t index, const std::vector<Held>& known) {
  const auto it = std::find_if(known.begin(), known.end(), [index](const Held& held) { return held.index == index; });
  return "GPU " + std::to_string(index) + (it != known.end() ? " (" + it->uuid + ")" : "");
}

}  // namespace

ComputeMode compute_mode_of(const Functions& f, Device device) {
  const std::int32_t mode = reported(f.compute_mode, device).value_or(-1);
  return mode >= 0 && mode <= 3 ? static_cast<ComputeMode>(mode) : ComputeMode::kDefault;
}

Result<Inventory> Driver::scan() {
  Inventory node;
  node.platform = platform_of(discovery_, signs_);
  if (!has_library()) return node;
  const Functions& f = library_->functions();
  std::uint32_t count = 0;
  TRY_STATUS(library_->check(call(f.device_count, &count), "cannot count the GPUs", "nvmlDeviceGetCount"));
  std::array<char, kVersionLength> version{};
  if (call(f.driver_version, version.data(), static_cast<std::uint32_t>(version.size() - 1)) == Return::kSuccess) {
    node.driver_version = version.data();
  }
  std::int32_t cuda = 0;
  if (call(f.cuda_driver_version, &cuda) == Return::kSuccess) node.cuda_driver_version = cuda;

  held_.clear();
  missing_.clear();
  const auto misses = [&](std::uint32_t index, const Error& error) {
    missing_.push_back({index, error.code == static_cast<int>(Return::kGpuIsLost)});
    node.unreadable.push_back(to_string(error));
  };
  for (std::uint32_t index = 0; index < count; ++index) {
    Device device = nullptr;
    const std::string name = name_of_missing(index, ever_held_);
    if (const Return code = call(f.device_by_index, index, &device); code != Return::kSuccess) {
      misses(index, library_->error(code, name + " does not answer", "nvmlDeviceGetHandleByIndex"));
      continue;
    }
    Result<Gpu> gpu = read_gpu(*library_, device, index, root_, !signs_.dxcore, node);
    if (!gpu) {
      misses(index, within(std::move(gpu).error(), name));
      continue;
    }
    held_.push_back({gpu->uuid, index, device, gpu->mig_enabled});
    node.gpus.push_back(*std::move(gpu));
  }
  for (const Held& gpu : held_) {
    std::erase_if(ever_held_, [&gpu](const Held& old) { return old.index == gpu.index || old.uuid == gpu.uuid; });
    ever_held_.push_back(gpu);
  }
  PlatformSigns signs = signs_;
  signs.integrated_gpu = std::ranges::any_of(node.gpus, [](const Gpu& gpu) { return is_integrated_gpu(gpu.name); });
  node.platform = platform_of(discovery_, signs);
  find_mig_nodes(root_, node);
  node.links = read_links(*library_, held_, node.gpus);
  return node;
}

}  // namespace tranche::gpu::nvml
