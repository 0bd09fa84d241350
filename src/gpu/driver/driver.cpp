#include "gpu/driver/driver.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "gpu/driver/kernel_signs.h"
#include "gpu/driver/mig/mig.h"
#include "gpu/driver/processes.h"
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
    const auto it = std::ranges::find(gpus, remote.bus_id, &Gpu::pci_bus_id);
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
  FabricInfo info{};
  info.version = kFabricInfoVersion;
  if (call(f.fabric_info, device, &info) != Return::kSuccess || info.status != 0) return {};
  const bool set = std::ranges::any_of(info.cluster_uuid, [](std::uint8_t b) { return b != 0; });
  if (info.state != kFabricCompleted || !set) return {};
  return uuid_text(info.cluster_uuid) + "." + std::to_string(info.clique_id);
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
  read_text(f.name, device, gpu.name);

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
  // 0 is unknown: the label gpu.mode is then "unknown", as NVIDIA's is, which looks there, too.
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
  const std::int32_t mode = reported(f.compute_mode, device).value_or(-1);
  if (mode >= 0 && mode <= 3) gpu.compute_mode = static_cast<ComputeMode>(mode);
  TRY_STATUS(read_mig(library, device, gpu, node.unreadable));
  gpu.fabric_clique = clique_of(f, device);
  return gpu;
}

std::string name_of_missing(std::uint32_t index, const std::vector<Held>& known) {
  const auto it = std::ranges::find(known, index, &Held::index);
  return "GPU " + std::to_string(index) + (it != known.end() ? " (" + it->uuid + ")" : "");
}

}  // namespace

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

Result<std::unique_ptr<Driver>> Driver::open(const NvmlSettings& settings) {
  PlatformSigns signs = look_for_signs(settings.driver_root, settings.system_root);
  const auto serve = [&](std::unique_ptr<Library> library) {
    return std::unique_ptr<Driver>(new Driver(std::move(library), settings, signs));
  };
  if (settings.discovery == config::DiscoveryStrategy::kTegra) return serve(Library::none());
  Result<std::unique_ptr<Library>> library = Library::open(settings.driver_root);
  signs.nvml_loads = library.has_value() || library_loads(settings.driver_root, kSoname);
  if (library) return serve(*std::move(library));
  if (platform_of(settings.discovery, signs) == Platform::kTegra) return serve(Library::none());
  return std::unexpected(std::move(library).error());
}

Result<GpuUse> Driver::use_of(const Held& gpu) const {
  const Functions& f = library_->functions();
  GpuUse use;
  use.uuid = gpu.uuid;
  Memory memory{};
  const Return code = call(f.memory, gpu.device, &memory);
  // Integrated GPUs do not have this figure; any other failure means that the GPU does not answer.
  if (code != Return::kSuccess && code != Return::kNotSupported && code != Return::kNoPermission)
    return std::unexpected(library_->error(code, "cannot read the memory", gpu.uuid));
  use.used = {memory.used};
  use.utilization = reported(f.utilization, gpu.device).value_or(Utilization{}).gpu;
  if (const auto persistence = reported(f.persistence_mode, gpu.device)) use.persistence = *persistence == kEnabled;
  if (const auto [demand] = read_fields(f, gpu.device, std::array{kFieldRecoveryAction}); demand)
    use.demand = static_cast<std::uint32_t>(*demand);
  TRY(use.processes, read_processes(*library_, gpu.device));
  return use;
}

Result<std::vector<GpuUse>> Driver::use() {
  if (held_.empty()) {
    TRY([[maybe_unused]] const Inventory scanned, scan());
  }
  std::vector<GpuUse> all;
  all.reserve(held_.size());
  for (const Held& gpu : held_) {
    if (Result<GpuUse> use = use_of(gpu)) all.push_back(*std::move(use));
  }
  if (all.empty() && !held_.empty()) return fail(Kind::kUnavailable, "no GPU answers", library_->path());
  return all;
}

bool Driver::answers(const Held& gpu) const {
  Memory memory{};
  return call(library_->functions().memory, gpu.device, &memory) != Return::kGpuIsLost;
}

bool Driver::more_answer() const {
  const Functions& f = library_->functions();
  std::uint32_t count = 0;
  if (call(f.device_count, &count) == Return::kSuccess && count != held_.size() + missing_.size()) return true;
  return std::any_of(missing_.begin(), missing_.end(), [&f](const Missing& gpu) {
    Device device = nullptr;
    std::string uuid;
    return call(f.device_by_index, gpu.index, &device) == Return::kSuccess &&
           read_text(f.uuid, device, uuid) == Return::kSuccess;
  });
}

Status Driver::set_compute_mode(const std::string& gpu_uuid, ComputeMode mode) {
  if (held_.empty()) {
    TRY([[maybe_unused]] const Inventory scanned, scan());
  }
  const auto gpu = std::ranges::find(held_, gpu_uuid, &Held::uuid);
  if (gpu == held_.end())
    return fail(Kind::kNotFound, "no GPU " + in_quotes(gpu_uuid) + " answers on this node", gpu_uuid);
  const Functions& f = library_->functions();
  TRY_STATUS(library_->check(call(f.set_compute_mode, gpu->device, static_cast<std::int32_t>(mode)),
                             "cannot set the compute mode to " + std::string(to_string(mode)), gpu_uuid));
  // Read the mode back: with MIG on, the driver accepts it for MIG devices only, and some versions ignore it silently.
  const auto now = reported(f.compute_mode, gpu->device);
  if (now && *now != static_cast<std::int32_t>(mode))
    return fail(
        Kind::kConflict,
        "the driver accepted the compute mode " + std::string(to_string(mode)) + " but another one is in effect",
        gpu_uuid, *now);
  return {};
}

}  // namespace tranche::gpu::nvml

namespace tranche::gpu {

bool has_left(const std::string& system_root, const Gpu& gpu) {
  return !gpu.pcie_root.empty() && !nvml::has_function(system_root, gpu.pci_bus_id);
}

}  // namespace tranche::gpu
