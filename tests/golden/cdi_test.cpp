// Recorded nodes → their CDI specs. The driver's files are those of a usual installation. How render() indents is for
// src/cdi's tests.
#include <gtest/gtest.h>

#include "cdi/make_specs.h"
#include "cdi/spec.h"
#include "cdi_grammar.h"
#include "golden/golden.h"
#include "golden/json_lines.h"
#include "gpu/inventory/inventory.h"

namespace tranche {
namespace {

using cdi::DriverFiles;
using cdi::Found;

Found at(const std::string& path) {
  return {path, path};
}

// At most two GPUs of a recorded node.
gpu::Inventory recorded(const std::string& name) {
  const std::string path = "tests/golden/plan/inventories/" + name + ".json";
  auto parsed = gpu::parse_inventory(golden::read(golden::source(path)), path);
  EXPECT_TRUE(parsed) << to_string(parsed.error());
  auto inventory = parsed.value_or(gpu::Inventory{});
  if (inventory.gpus.size() > 2) inventory.gpus.resize(2);
  return inventory;
}

// A driver installed by NVIDIA's packages on Ubuntu, with everything that the inventory's GPUs need.
DriverFiles usual_files(const gpu::Inventory& inventory) {
  const std::string folder = "/usr/lib/x86_64-linux-gnu";
  const std::string version = inventory.driver_version;
  DriverFiles files;
  int card = 0;
  for (const auto& gpu : inventory.gpus) {
    files.gpu_nodes.insert(at("/dev/nvidia" + std::to_string(gpu.minor)));
    for (const auto& mig : gpu.mig_devices)
      for (const auto& cap : {mig.gi_cap, mig.ci_cap})
        if (cap) files.gpu_nodes.insert(at("/dev/nvidia-caps/nvidia-cap" + std::to_string(*cap)));
    const std::string node = "/dev/dri/card" + std::to_string(++card);
    std::string link = "/dev/dri/by-path/pci-0000:" + gpu.pci_bus_id.substr(9) + "-card";
    for (char& c : link)  // the kernel writes addresses in small letters
      if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    files.drm[gpu.uuid] = {{at(node)}, {{link, "../card" + std::to_string(card), node}}};
  }
  for (const char* name : {"nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidiactl"})
    files.control_nodes.insert(at(std::string("/dev/") + name));
  files.library_dir = folder;
  for (const char* name : {"libGLX_nvidia", "libcuda", "libnvidia-ml", "libnvidia-opticalflow"})
    files.libraries.insert(at(folder + "/" + name + ".so." + version));
  for (const char* name : {"libcuda", "libnvidia-ml"}) {
    const std::string real = folder + "/" + name + ".so." + version;
    files.links.insert({folder + "/" + name + ".so.1", std::string(name) + ".so." + version, real});
  }
  files.files = {at("/lib/firmware/nvidia/" + version + "/gsp_ga10x.bin"),
                 at("/usr/share/glvnd/egl_vendor.d/10_nvidia.json")};
  files.binaries = {at("/usr/bin/nvidia-cuda-mps-control"), at("/usr/bin/nvidia-smi")};
  files.sockets = {at("/run/nvidia-persistenced/socket")};
  files.imex_channel = at("/dev/nvidia-caps-imex-channels/channel0");
  files.gdrcopy = {at("/dev/gdrdrv")};
  files.gds = {at("/dev/nvidia-fs0")};
  files.gds_files = {at("/etc/cufile.json"), at("/run/udev")};
  files.mofed = {at("/dev/infiniband/rdma_cm"), at("/dev/infiniband/uverbs0")};
  return files;
}

DriverFiles tegra_files() {
  const std::string folder = "/usr/lib/aarch64-linux-gnu";
  DriverFiles files;
  files.gpu_nodes = {at("/dev/nvhost-ctrl"), at("/dev/nvmap")};
  files.directories = {at("/lib/firmware/tegra23x")};
  files.libraries = {at(folder + "/tegra/libcuda.so.1.1"), at(folder + "/tegra/libnvrm_gpu.so")};
  files.files = {at(folder + "/tegra/nvidia_icd.json")};
  files.links = {{"/etc/vulkan/icd.d/nvidia_icd.json", folder + "/tegra/nvidia_icd.json", "/x"}};
  return files;
}

// Every spec of a node in one text, as `head` shows several files.
std::string shown(const cdi::MadeSpecs& made) {
  std::string text;
  for (const auto& spec : made.specs) {
    text += "==> " + cdi::file_name(spec.cls) + "\n";
    text += golden::json_lines(nlohmann::ordered_json::parse(cdi::render(spec))) + "\n";
    EXPECT_EQ(test::fault_of(spec), "");
  }
  for (const auto& note : made.notes) text += "note: " + note + "\n";
  return text;
}

void compare(const std::string& name, const cdi::MadeSpecs& made) {
  golden::compare(golden::source("tests/golden/cdi/expected/" + name + ".txt"), shown(made));
}

// Promise: cdi: Equal inputs give equal files.
TEST(GoldenCdi, OfTwoH200) {
  const auto inventory = recorded("4xH200");
  compare("2xH200", cdi::make_specs(inventory, {}, usual_files(inventory)));
}

TEST(GoldenCdi, OfTwoH200ByIndexInADriverContainerWithEveryClass) {
  const auto inventory = recorded("4xH200");
  config::Config config;
  config.flags.plugin.device_id_strategy = config::IdStrategy::kIndex;
  config.flags.plugin.nvidia_ctk_path = "/usr/local/nvidia/toolkit/nvidia-cdi-hook";
  config.flags.nvidia_driver_root = "/run/nvidia/driver";
  config.flags.nvidia_dev_root = "/";
  config.flags.gdrcopy_enabled = config.flags.gds_enabled = config.flags.mofed_enabled = true;
  config.imex.channel = true;
  compare("2xH200-index", cdi::make_specs(inventory, config, usual_files(inventory)));
}

TEST(GoldenCdi, OfTwoA100InMigDevices) {
  const auto inventory = recorded("2xA100-uniform-mig");
  compare("2xA100-mig", cdi::make_specs(inventory, {}, usual_files(inventory)));
}

TEST(GoldenCdi, OfATegraSystem) {
  gpu::Inventory inventory;
  inventory.platform = gpu::Platform::kTegra;
  compare("tegra", cdi::make_specs(inventory, {}, tegra_files()));
}

}  // namespace
}  // namespace tranche
