// The test tables of GPU feature discovery v0.20, rewritten: the results must be the same. Rows with a different result
// state that (docs/compatibility/labels.md).
#include <gmock/gmock.h>

#include "labels/label_fixture.h"

namespace tranche::labels {
namespace replayed_test {

using config::Config;
using config::MigStrategy;
using config::SharingStrategy;
using gpu::Gpu;
using gpu::Inventory;
using gpu::MigDevice;

struct Slice {
  std::uint32_t gi = 1;
  std::uint32_t ci = 2;
  std::uint32_t gb = 100;
  std::uint32_t first_engine = 0;  // 13: 13, 14, 15, 16, 17 engines, and 12 SMs
};

Gpu plain(const std::string& name = "Model") {
  Gpu gpu;
  gpu.name = name;
  gpu.memory = mib(300);
  gpu.compute_capability = {8, 0};
  return gpu;
}

Gpu cut(const std::vector<Slice>& slices) {
  Gpu gpu = plain();
  gpu.compute_capability = {};
  gpu.mig_capable = gpu.mig_enabled = true;
  for (const Slice& slice : slices) {
    MigDevice mig;
    mig.profile = std::to_string(slice.gi) + "g." + std::to_string(slice.gb) + "gb";
    mig.memory = mib(slice.gb);
    mig.gi_slices = slice.gi;
    mig.ci_slices = slice.ci;
    if (slice.first_engine > 0) {
      mig.sm_count = slice.first_engine - 1;
      for (std::uint32_t i = 0; i < 5; ++i) mig.engines.at(i) = slice.first_engine + i;
    }
    gpu.mig_devices.push_back(mig);
  }
  return gpu;
}

Inventory node_of(std::vector<Gpu> gpus) {
  Inventory inventory;
  for (Gpu& gpu : gpus) {
    gpu.index = static_cast<std::uint32_t>(inventory.gpus.size());
    gpu.uuid = "GPU-" + std::to_string(gpu.index);
    for (MigDevice& mig : gpu.mig_devices) mig.uuid = "MIG-" + gpu.uuid + std::to_string(mig.slot);
    inventory.gpus.push_back(gpu);
  }
  return inventory;
}

Config config_of(MigStrategy mig, const std::string& shared_name = "", bool renamed = false) {
  Config config;
  if (!shared_name.empty()) config = shared(SharingStrategy::kTimeSlicing, 2, renamed, shared_name);
  config.flags.mig_strategy = mig;
  return config;
}

// The labels of a resource labeler: model, count, memory, slices and sharing of the devices.
Labels resources_of(const Config& config, const Inventory& inventory) {
  Labels labels;
  for (auto& [key, value] : labels_of(config, inventory)) {
    const bool of_resource =
        key.starts_with("nvidia.com/gpu.") || key.starts_with("nvidia.com/mig-") || key == "nvidia.com/mig.strategy";
    const bool of_node = key == "nvidia.com/gpu.machine" || key == "nvidia.com/gpu.mode";
    if (of_resource && !of_node) labels.emplace(key, value);
  }
  return labels;
}

// Short notations of expected labels.
Labels gpu(const std::string& product, const std::string& count, const std::string& replicas,
           const std::string& memory = "300", const std::string& sharing = "none") {
  return {{"nvidia.com/gpu.product", product},
          {"nvidia.com/gpu.count", count},
          {"nvidia.com/gpu.replicas", replicas},
          {"nvidia.com/gpu.memory", memory},
          {"nvidia.com/gpu.sharing-strategy", sharing}};
}
Labels operator+(Labels a, const Labels& b) {
  for (const auto& [key, value] : b) a[key] = value;
  return a;
}
const Labels kAmpere{
    {"nvidia.com/gpu.family", "ampere"}, {"nvidia.com/gpu.compute.major", "8"}, {"nvidia.com/gpu.compute.minor", "0"}};
const Labels kSingle{{"nvidia.com/mig.strategy", "single"}};
const Labels kMixed{{"nvidia.com/mig.strategy", "mixed"}};
constexpr const char* kSliced = "time-slicing";

Labels mig(const std::string& resource, const std::string& product, const std::string& count,
           const std::string& replicas, const std::string& memory, std::uint32_t engine = 0,
           const std::string& sharing = "none") {
  Labels labels{{".product", product},
                {".count", count},
                {".replicas", replicas},
                {".memory", memory},
                {".sharing-strategy", sharing},
                {".multiprocessors", engine > 0 ? std::to_string(engine - 1) : "0"},
                {".slices.gi", "1"},
                {".slices.ci", "2"}};
  for (const char* name : {".engines.copy", ".engines.decoder", ".engines.encoder", ".engines.jpeg", ".engines.ofa"})
    labels[name] = std::to_string(engine > 0 ? engine++ : 0);
  Labels named;
  for (const auto& [suffix, value] : labels) named[resource + suffix] = value;
  return named;
}

struct Case {
  const char* what;
  std::vector<Gpu> gpus;
  std::string shared;  // the resource that time-slicing divides in two
  Labels expected;
  bool renamed = false;
};

void replay(MigStrategy strategy, const std::vector<Case>& cases) {
  for (const Case& row : cases)
    EXPECT_EQ(resources_of(config_of(strategy, row.shared, row.renamed), node_of(row.gpus)), row.expected) << row.what;
}

constexpr const char* kGpu = "nvidia.com/gpu";

// Promise: labels: Labels by sharing equal those of GPU feature discovery.
TEST(ReplayedLabels, OfStrategyNone) {
  replay(MigStrategy::kNone,
         {{"no device", {}, "", {}},
          {"one GPU", {plain()}, "", gpu("Model", "1", "1") + kAmpere},
          {"one shared GPU", {plain()}, kGpu, gpu("Model-SHARED", "1", "2", "300", kSliced) + kAmpere},
          {"two shared GPUs", {plain(), plain()}, kGpu, gpu("Model-SHARED", "2", "2", "300", kSliced) + kAmpere},
          {"a GPU with MIG on is not shared", {cut({})}, kGpu, gpu("Model", "1", "0")},
          {"nor are two", {cut({}), cut({})}, kGpu, gpu("Model", "2", "0")},
          {"both kinds: the plain one speaks",
           {cut({}), plain()},
           kGpu,
           gpu("Model-SHARED", "2", "2", "300", kSliced) + kAmpere},
          {"another resource is shared", {plain()}, "nvidia.com/not-gpu", gpu("Model", "1", "1") + kAmpere},
          {"renamed", {plain()}, kGpu, gpu("Model", "1", "2", "300", kSliced) + kAmpere, true}});
}

TEST(ReplayedLabels, OfStrategySingle) {
  const Labels invalid = gpu("Model-MIG-INVALID", "0", "0", "0", "") + kSingle;
  replay(MigStrategy::kSingle,
         {{"no device", {}, "", {}},
          {"one GPU", {plain()}, "", gpu("Model", "1", "1") + kAmpere + kSingle},
          {"two GPUs", {plain(), plain()}, "", gpu("Model", "2", "1") + kAmpere + kSingle},
          {"one MIG device", {cut({{}})}, "", mig(kGpu, "Model-MIG-1g.100gb", "1", "1", "100") + kSingle},
          {"one on each of two GPUs",
           {cut({{1, 2, 100, 13}}), cut({{1, 2, 100, 13}})},
           "",
           mig(kGpu, "Model-MIG-1g.100gb", "2", "1", "100", 13) + kSingle},
          {"MIG on and no device", {cut({})}, "", invalid},
          {"two profiles", {cut({{1, 2, 100}, {3, 4, 100}})}, "", invalid},
          {"MIG on and off", {cut({{}}), plain()}, "", invalid + kAmpere},
          {"on, off and empty", {cut({{}}), plain(), cut({})}, "", invalid + kAmpere}});
}

// Promise: labels: Labels by sharing equal those of GPU feature discovery.
TEST(ReplayedLabels, OfMigDevicesBySharing) {
  const std::string profile = "nvidia.com/mig-1g.100gb";
  const Labels whole = gpu("Model", "1", "0") + kMixed;
  replay(
      MigStrategy::kSingle,
      {{"shared", {cut({{}})}, kGpu, mig(kGpu, "Model-MIG-1g.100gb-SHARED", "1", "2", "100", 0, kSliced) + kSingle},
       {"renamed", {cut({{}})}, kGpu, mig(kGpu, "Model-MIG-1g.100gb", "1", "2", "100", 0, kSliced) + kSingle, true}});
  replay(
      MigStrategy::kMixed,
      {{"not shared", {cut({{}})}, "", mig(profile, "Model-MIG-1g.100gb", "1", "1", "100") + whole},
       {"GPUs are", {cut({{}})}, kGpu, mig(profile, "Model-MIG-1g.100gb", "1", "1", "100") + whole},
       {"shared", {cut({{}})}, profile, mig(profile, "Model-MIG-1g.100gb-SHARED", "1", "2", "100", 0, kSliced) + whole},
       {"renamed",
        {cut({{}})},
        profile,
        mig(profile, "Model-MIG-1g.100gb", "1", "2", "100", 0, kSliced) + whole,
        true}});
}

TEST(ReplayedLabels, MigCapableIsAnyGpuThatAnswersTheQuestion) {
  struct Row {
    std::vector<Gpu> gpus;
    const char* value;
  };
  for (const Row& row : {Row{{plain()}, "false"}, Row{{plain(), plain()}, "false"}, Row{{cut({})}, "true"},
                         Row{{plain(), cut({})}, "true"}})
    EXPECT_EQ(labels_of({}, node_of(row.gpus))["nvidia.com/mig.capable"], row.value);
  EXPECT_FALSE(labels_of({}, {}).contains("nvidia.com/mig.capable"));
}

TEST(ReplayedLabels, ModeFollowsTheClassesOfAllGpus) {
  struct Row {
    std::vector<std::uint32_t> classes;
    const char* mode;
  };
  for (const Row& row : {Row{{0x030200}, "compute"}, Row{{0x030200, 0x030200}, "compute"}, Row{{0x030000}, "graphics"},
                         Row{{0x030000, 0x030000}, "graphics"}, Row{{0x030200, 0x030000}, "unknown"},
                         Row{{0x030100}, "unknown"}, Row{{0}, "unknown"}}) {
    std::vector<Gpu> gpus;
    for (const auto pci_class : row.classes) {
      gpus.push_back(plain());
      gpus.back().pci_class = pci_class;
    }
    EXPECT_EQ(labels_of({}, node_of(gpus))["nvidia.com/gpu.mode"], row.mode);
  }
}

TEST(ReplayedLabels, ModelsAreSanitised) {
  struct Row {
    const char* model;
    const char* product;
  };
  for (const Row& row :
       {Row{"NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"}, Row{"Quadro RTX 6000/8000", "Quadro-RTX-60008000"},
        Row{"GeForce  GTX\t1080", "GeForce-GTX-1080"}, Row{"Graphics Device (rev. a1)", "Graphics-Device-rev.-a1"},
        Row{" Tesla T4 ", "Tesla-T4"}, Row{"TU102 [GeForce RTX 2080 Ti]", "TU102-GeForce-RTX-2080-Ti"},
        Row{"A_B.C-D", "A_B.C-D"}, Row{"M\xc3\xb6\x64\x65l", "Mdel"}})
    EXPECT_EQ(labels_of({}, node_of({plain(row.model)}))["nvidia.com/gpu.product"], row.product);
}

}  // namespace replayed_test
}  // namespace tranche::labels
