#include "property/generate.h"

#include <cstdio>
#include <cstdlib>

#include "gpu/models/models.h"
#include "sanitized.h"

namespace tranche::property {

std::uint32_t rounds(std::uint32_t everyday) {
  const char* given = std::getenv("TRANCHE_PROPERTY_ROUNDS");
  if (given == nullptr && TRANCHE_SANITIZED != 0) return (everyday + 15) / 16;  // a sanitizer takes 40 times as long
  return given == nullptr ? everyday : static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10));
}

namespace {

struct Model {
  const char* name;
  std::uint64_t memory_mib;
  std::uint32_t sms;
  gpu::ComputeCapability capability;
};
const std::vector<Model> kModels{
    {"NVIDIA H200", 143771, 132, {9, 0}},        {"NVIDIA A100-PCIE-40GB", 40960, 108, {8, 0}},
    {"NVIDIA L40S", 46068, 142, {8, 9}},         {"Tesla T4", 15360, 40, {7, 5}},
    {"Tesla V100-SXM2-16GB", 16384, 80, {7, 0}}, {"NVIDIA B200", 183359, 148, {10, 0}}};

}  // namespace

gpu::Gpu any_gpu(Random& random, std::uint32_t index) {
  const Model& model = random.one_of(kModels);
  gpu::Gpu gpu;
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

gpu::Inventory any_inventory(Random& random, std::uint32_t most_gpus) {
  gpu::Inventory inventory;
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

dra::Partitionable any_partitions(Random& random, config::Config& config, gpu::Inventory& inventory) {
  dra::Partitionable all;
  if (random.chance(50)) return all;
  config.dra.partitions = config::DraPartitions::kOnDemand;
  const std::vector models(gpu::mig_models().begin(), gpu::mig_models().end());
  std::uint32_t most = random.number(1, 3);
  for (auto& gpu : inventory.gpus) {
    if (most == 0) break;
    if (gpu.mig_enabled || random.chance(50)) continue;
    --most;
    gpu.mig_enabled = true;
    auto& known = all.gpus[gpu.uuid];
    known.profiles = random.one_of(models).profiles;
    const auto& profile = random.one_of(known.profiles);
    if (random.chance(20)) known.foreign.push_back({profile.id, profile.slices, random.one_of(profile.placements)});
  }
  return all;
}

namespace {

config::ThreadsPolicy any_threads(Random& random) {
  using Kind = config::ThreadsPolicy::Kind;
  if (random.chance(60)) return {};
  return random.one_of(std::vector<config::ThreadsPolicy>{{Kind::kFactor, random.number(1, 400), 0},
                                                          {Kind::kOpen, 100, 0},
                                                          {Kind::kTenant, 100, 0},
                                                          {Kind::kSms, 100, random.number(8, 40)}});
}

config::MemoryPolicy any_memory(Random& random) {
  using Kind = config::MemoryPolicy::Kind;
  if (random.chance(60)) return {};
  return random.one_of(std::vector<config::MemoryPolicy>{{Kind::kFactor, random.number(10, 400), {}},
                                                         {Kind::kOpen, 100, {}},
                                                         {Kind::kTenant, 100, {}},
                                                         {Kind::kSize, 100, mib(random.number(100, 20000))}});
}

config::SharedResource any_entry(Random& random, const config::Sharing& sharing, bool mps) {
  config::SharedResource entry;
  entry.name = "nvidia.com/gpu";
  entry.strategy = mps ? config::SharingStrategy::kMps : config::SharingStrategy::kTimeSlicing;
  if (sharing.rename_by_default) entry.rename = "nvidia.com/gpu.shared";
  entry.replicas = random.number(2, 120);
  if (!mps) return entry;
  entry.replicas = sharing.fail_requests_greater_than_one ? random.number(1, 48) : random.number(1, 1000);
  if (random.chance(20)) {
    entry.replicas = 0;
    entry.slot_memory = mib(random.number(sharing.fail_requests_greater_than_one ? 4000 : 200, 20000));
  }
  entry.threads = any_threads(random);
  entry.memory = any_memory(random);
  if (random.chance(20)) entry.names = random.one_of(std::vector<std::string>{"nvidia.com/gpu%d", "nvidia.com/%m"});
  if (!entry.names.empty()) entry.rename.reset();
  if (random.chance(30)) entry.split = config::SplitPolicy::kSpan;
  return entry;
}

// The first GPUs to one entry, the rest to another, or to nobody.
void divide_among_entries(Random& random, config::Sharing& sharing, bool mps) {
  sharing.per_device = true;
  config::SharedResource first = any_entry(random, sharing, mps);
  if (first.names.empty()) first.rename = "nvidia.com/first";
  first.devices = config::DeviceCount{random.number(1, 4)};
  sharing.resources.insert(sharing.resources.begin(), first);
  config::SharedResource& second = sharing.resources.back();
  if (second.names.empty()) second.rename = "nvidia.com/second";
  if (random.chance(50)) second.devices = std::vector<config::DeviceRef>{{"0"}, {"5"}};
}

}  // namespace

config::Config any_config(Random& random) {
  config::Config config;
  if (random.chance(15)) return config;
  config::Sharing& sharing = config.sharing;
  sharing.strategy = random.chance(80) ? config::SharingStrategy::kMps : config::SharingStrategy::kTimeSlicing;
  const bool mps = sharing.strategy == config::SharingStrategy::kMps;
  if (mps) config.flags.mps_root = "/run/nvidia/mps";
  sharing.fail_requests_greater_than_one = random.chance(40);
  sharing.rename_by_default = random.chance(50);
  sharing.sm_rounding =
      random.one_of(std::vector{config::SmRounding::kUp, config::SmRounding::kDown, config::SmRounding::kOff});
  if (random.chance(30)) sharing.reserve = {config::Reserve::Kind::kAuto, {}};
  sharing.resources.push_back(any_entry(random, sharing, mps));
  if (random.chance(30)) divide_among_entries(random, sharing, mps);
  return config;
}

}  // namespace tranche::property
