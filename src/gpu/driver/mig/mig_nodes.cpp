#include "gpu/driver/mig/mig_nodes.h"

#include <algorithm>

#include "gpu/inventory/mig_minors.h"
#include "os/files/files.h"

namespace tranche::host::nvml {
namespace {

constexpr const char* kTable = "/proc/driver/nvidia-caps/mig-minors";

void say_bad_lines(const std::string& path, const inventory::MigMinors& table, inventory::Inventory& node) {
  if (table.bad_lines == 0) return;
  for (const std::string& sentence : table.not_understood) node.doubts.push_back(path + ": " + sentence);
  if (table.bad_lines > table.not_understood.size())
    node.doubts.push_back(path + ": " + std::to_string(table.bad_lines) + " lines are not understood");
}

}  // namespace

void find_mig_nodes(const std::string& root, inventory::Inventory& node) {
  if (std::ranges::all_of(node.gpus, [](const inventory::Gpu& gpu) { return gpu.mig_devices.empty(); })) return;
  const std::string path = (root == "/" ? "" : root) + kTable;
  const auto text = read_file(path);
  if (!text) {
    node.doubts.push_back(to_string(within(text.error(), "it is not known which device nodes open MIG devices")));
    return;
  }
  const inventory::MigMinors table = inventory::parse_mig_minors(*text);
  say_bad_lines(path, table, node);
  for (inventory::Gpu& gpu : node.gpus) {
    for (inventory::MigDevice& mig : gpu.mig_devices) {
      mig.gi_cap = table.of(gpu.minor, mig.gpu_instance);
      mig.ci_cap = table.of(gpu.minor, mig.gpu_instance, mig.compute_instance);
      if (!mig.gi_cap || !mig.ci_cap)
        node.doubts.push_back("MIG device " + std::to_string(gpu.index) + ":" + std::to_string(mig.slot) + " (" +
                              mig.uuid + "): " + path + " does not say which device nodes open it");
    }
  }
}

}  // namespace tranche::host::nvml
