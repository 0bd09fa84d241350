#include "gpu/driver/nvml.h"

#include "gpu/driver/driver.h"
#include "gpu/driver/sysfs.h"

namespace tranche::host {
namespace {

class DirectNvml : public Nvml {
 public:
  explicit DirectNvml(std::unique_ptr<nvml::Driver> driver) : driver_(std::move(driver)) {}
  std::string library_path() const override { return driver_->library().path(); }
  Result<inventory::Inventory> scan() override { return driver_->scan(); }
  Result<std::vector<GpuUse>> use() override { return driver_->use(); }
  Status set_compute_mode(const std::string& gpu_uuid, inventory::ComputeMode mode) override {
    return driver_->set_compute_mode(gpu_uuid, mode);
  }

 private:
  std::unique_ptr<nvml::Driver> driver_;
};

}  // namespace

void Presence::saw(const std::string& system_root, const inventory::Inventory& scanned) {
  for (const auto& gpu : scanned.gpus)
    if (nvml::has_function(system_root, gpu.pci_bus_id)) had_function_.insert(gpu.uuid);
}

bool Presence::has_left(const std::string& system_root, const inventory::Gpu& gpu) const {
  return had_function_.contains(gpu.uuid) && !nvml::has_function(system_root, gpu.pci_bus_id);
}

Result<std::unique_ptr<Nvml>> Nvml::open(const NvmlSettings& settings) {
  TRY(std::unique_ptr<nvml::Driver> driver, nvml::Driver::open(settings));
  return std::make_unique<DirectNvml>(std::move(driver));
}

}  // namespace tranche::host
