#include "property/generate.h"

#include <cstdio>

namespace tranche::property {
namespace {

struct Model {
  const char* name;
  std::uint64_t memory_mib;
  std::uint32_t sms;
  inventory::ComputeCapability capability;
};
const std::vector<Model> kModels{
    {"NVIDIA H200", 143771, 132, {9, 0}},        {"NVIDIA A100-PCIE-40GB", 40960, 108, {8, 0}},
    {"NVIDIA L40S", 46068, 142, {8, 9}},         {"Tesla T4", 15360, 40, {7, 5}},
    {"Tesla V100-SXM2-16GB", 16384, 80, {7, 0}}, {"NVIDIA B200", 183359, 148, {10, 0}}};

}  // namespace

inventory::Gpu any_gpu(Random& random, std::uint32_t index) {
  const Model& model = random.one_of(kModels);
  inventory::Gpu gpu;
  char uuid[64];
  std::snprintf(uuid, sizeof uuid, "GPU-%08x-%04x-4000-8000-%012x", random.number(0, 0xffffffffu), index,
                random.number(0, 0xffffffu));
  gpu.uuid = uuid;
  gpu.index = index;
  gpu.minor = index;
  gpu.name = model.name;
  gpu.memory = mib(model.memory_mib);
  gpu.sm_count = model.sms;
  gpu.compute_capability = model.capability;
  if (random.chance(50)) gpu.numa_node = random.number(0, 3);
  return gpu;
}

inventory::Inventory any_inventory(Random& random, std::uint32_t most_gpus) {
  inventory::Inventory inventory;
  inventory.driver_version = "580.159.04";
  inventory.cuda_driver_version = 13000;
  const std::uint32_t count = random.number(1, most_gpus);
  for (std::uint32_t i = 0; i < count; ++i) inventory.gpus.push_back(any_gpu(random, i));
  for (std::uint32_t a = 0; a < count; ++a)
    for (std::uint32_t b = a + 1; b < count; ++b)
      inventory.links.push_back(
          {a, b, static_cast<int>(random.number(0, 5)) * 10, random.chance(30) ? random.number(1, 18) : 0});
  return inventory;
}

config::Config any_config(Random& random) {
  config::Config config;
  if (random.chance(15)) return config;
  config.sharing.strategy = random.chance(70) ? config::SharingStrategy::kMps : config::SharingStrategy::kTimeSlicing;
  const bool mps = config.sharing.strategy == config::SharingStrategy::kMps;
  if (mps) config.flags.mps_root = "/run/nvidia/mps";
  config.sharing.fail_requests_greater_than_one = random.chance(40);
  config.sharing.rename_by_default = random.chance(50);
  config.sharing.sm_rounding =
      random.one_of(std::vector{config::SmRounding::kUp, config::SmRounding::kDown, config::SmRounding::kOff});
  config::SharedResource entry;
  entry.name = "nvidia.com/gpu";
  entry.replicas = mps ? random.number(2, 48) : random.number(2, 120);
  if (config.sharing.rename_by_default) entry.rename = "nvidia.com/gpu.shared";
  config.sharing.resources.push_back(entry);
  return config;
}

}  // namespace tranche::property
