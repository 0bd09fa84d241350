// Any bytes as what a node says of itself (machine type, model, driver version, host of a virtual GPU, database of PCI
// ids, regions of a function): labels are always legal.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "labels/label.h"
#include "labels/pci.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  const std::string text(reinterpret_cast<const char*>(data), size);
  inventory::Inventory inventory;
  inventory.driver_version = text;
  inventory::Gpu gpu;
  gpu.uuid = "GPU-1";
  gpu.name = text;
  gpu.fabric_clique = text;
  gpu.mig_enabled = true;
  inventory::MigDevice mig;
  mig.profile = text;
  gpu.mig_devices = {mig};
  inventory.gpus = {gpu};
  config::Config config;
  config.flags.mig_strategy = config::MigStrategy::kMixed;
  label::Inputs inputs;
  inputs.machine_type = text;
  inputs.vgpu = label::Vgpu{true, text, text};
  for (const auto& [key, value] : label::labels_for(config, inventory, {}, inputs))
    if (!label::legal_key(key) || !label::legal_value(value)) std::abort();
  if (label::device_name(text, 0x2335).size() > size) std::abort();
  (void)label::largest_region(text);
  (void)label::hex_number(text);
  return 0;
}
