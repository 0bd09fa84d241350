#include "host/nvml/nvml.h"

#include "host/nvml/driver.h"

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

Result<std::unique_ptr<Nvml>> Nvml::open(const NvmlSettings& settings) {
  TRY(std::unique_ptr<nvml::Driver> driver, nvml::Driver::open(settings));
  return std::make_unique<DirectNvml>(std::move(driver));
}

}  // namespace tranche::host
