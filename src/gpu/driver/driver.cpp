#include "gpu/driver/driver.h"

#include <algorithm>

#include "base/text.h"
#include "gpu/driver/kernel_signs.h"
#include "gpu/driver/processes.h"
#include "gpu/platform/platform.h"

namespace tranche::gpu::nvml {

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
  if (code == Return::kSuccess) {
    use.used = {memory.used};
    use.total = {memory.total};
  }
  use.utilization = reported(f.utilization, gpu.device).value_or(Utilization{}).gpu;
  use.compute_mode = compute_mode_of(f, gpu.device);
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
