#include "labels/live/tegra.h"

#include <array>

#include "doctor/probe/cuda_library.h"
#include "labels/label.h"

namespace tranche::agent {
namespace {

Result<inventory::Gpu> gpu_at(const probe::CudaLibrary& cuda, int index) {
  const auto& f = cuda.functions();
  const std::string which = "CUDA device " + std::to_string(index);
  probe::CudaDevice device = 0;
  std::array<char, 128> name{};
  std::size_t memory = 0;
  inventory::Gpu gpu;
  int code = f.device_get(&device, index);
  if (code == 0) code = f.device_name(name.data(), static_cast<int>(name.size()) - 1, device);
  if (code == 0) code = f.device_memory(&memory, device);
  if (code == 0) code = f.device_attribute(&gpu.compute_capability.major, probe::kAttributeCapabilityMajor, device);
  if (code == 0) code = f.device_attribute(&gpu.compute_capability.minor, probe::kAttributeCapabilityMinor, device);
  if (code != 0) return std::unexpected(cuda.error(code, "cannot be read", which));
  gpu.uuid = which;
  gpu.index = static_cast<std::uint32_t>(index);
  gpu.name = name.data();
  gpu.memory = {memory};
  gpu.pci_class = 0;  // not on a PCI bus
  return gpu;
}

}  // namespace

Result<inventory::Inventory> read_tegra() {
  TRY(const auto cuda, probe::CudaLibrary::open());
  const auto& f = cuda->functions();
  inventory::Inventory node;
  node.platform = inventory::Platform::kTegra;
  node.driver_version = label::kUnknownDriver;
  int count = 0;
  int code = f.init(0);
  if (code == 0) code = f.device_count(&count);
  if (code != 0) return std::unexpected(cuda->error(code, "cannot be started", "CUDA"));
  if (f.driver_version != nullptr) (void)f.driver_version(&node.cuda_driver_version);
  for (int index = 0; index < count; ++index) {
    TRY(auto gpu, gpu_at(*cuda, index));
    node.gpus.push_back(std::move(gpu));
  }
  return node;
}

}  // namespace tranche::agent
