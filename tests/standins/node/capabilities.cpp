#include "capabilities.h"

#include <filesystem>
#include <fstream>

#include "mig.h"

namespace tranche::sim {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, std::uint32_t minor, std::uint32_t mode) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  const fs::path aside = path.string() + ".new";  // readers see the old file or the whole new one
  std::ofstream(aside) << "DeviceFileMinor: " << minor << "\nDeviceFileMode: " << mode << "\nDeviceFileModify: 1\n";
  fs::rename(aside, path, ignored);
}

}  // namespace

void show_capabilities(const Node& node, int gpu) {
  const std::string root = node.proc_root();
  if (root.empty()) return;
  constexpr std::uint32_t kRootOnly = 256, kEveryone = 292;
  constexpr std::uint32_t kFirst = 3, kPerGpu = 135, kPerInstance = 9;
  const fs::path all = fs::path(root) / "proc/driver/nvidia/capabilities";
  write_file(all / "mig/config", 1, kRootOnly);
  write_file(all / "mig/monitor", 2, kEveryone);
  const GpuState state = node.gpu_state(gpu);
  if (state.profile.mig.memory_slices == 0) return;
  const fs::path own = all / ("gpu" + std::to_string(state.minor)) / "mig";
  std::error_code ignored;
  fs::create_directories(own, ignored);  // exists and is empty while there is no instance
  for (std::uint32_t id = 0; id < kMaxGpuInstances; ++id) {
    const fs::path instance = own / ("gi" + std::to_string(id));
    const GpuInstanceState* gi = find_gi(state, id);
    if (gi == nullptr) {
      fs::remove_all(instance, ignored);
      continue;
    }
    const std::uint32_t minor = kFirst + kPerGpu * state.minor + kPerInstance * id;
    write_file(instance / "access", minor, kEveryone);
    for (std::uint32_t part = 0; part < kMaxComputeInstances; ++part) {
      const fs::path compute = instance / ("ci" + std::to_string(part));
      if (find_ci(*gi, part) != nullptr)
        write_file(compute / "access", minor + 1 + part, kEveryone);
      else
        fs::remove_all(compute, ignored);
    }
  }
}

}  // namespace tranche::sim
