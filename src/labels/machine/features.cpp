#include "labels/machine/features.h"

#include <filesystem>
#include <optional>

#include "base/text.h"
#include "labels/label.h"
#include "os/files/files.h"

namespace tranche::labels {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFunctions = "/sys/bus/pci/devices";
constexpr const char* kDatabases[] = {"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"};
constexpr const char* kUnknownDevice = "UNKNOWN_DEVICE";  // NVIDIA's value
constexpr std::uint32_t kNvidia = 0x10de;
constexpr std::uint32_t kDisplay = 0x030000;
constexpr std::uint32_t kController3d = 0x030200;
constexpr std::size_t kLargestDatabase = std::size_t{16} << 20;

std::optional<std::uint32_t> number_in(const os::Dir& function, const char* name) {
  const auto text = function.read(name);
  return text ? hex_number(*text) : std::nullopt;
}

// NVIDIA's PCI functions by address.
Result<std::vector<std::string>> functions_of(const std::string& root) {
  TRY(const os::Dir all, os::Dir::open(os::under_root(root, kFunctions)));
  TRY(const auto names, all.list());
  std::vector<std::string> ours;
  for (const auto& name : names) {
    TRY(const auto vendor, all.read(name + "/vendor"));
    if (hex_number(vendor) == kNvidia) ours.push_back(all.path() + "/" + name);
  }
  return ours;
}

std::string database_under(const std::string& root) {
  for (const char* path : kDatabases)
    if (auto text = os::read_file(os::under_root(root, path), kLargestDatabase)) return *std::move(text);
  return {};
}

std::optional<gpu::Gpu> gpu_of(const std::string& path, const std::string& database) {
  const auto function = os::Dir::open(path);
  if (!function) return std::nullopt;
  const auto pci_class = number_in(*function, "class");
  if (pci_class != kDisplay && pci_class != kController3d) return std::nullopt;
  gpu::Gpu gpu;
  gpu.pci_bus_id = fs::path(path).filename();
  gpu.uuid = gpu.pci_bus_id;  // no other identity is available
  gpu.pci_class = *pci_class;
  const auto device = number_in(*function, "device");
  gpu.name = device_name(database, static_cast<std::uint16_t>(device.value_or(0)));
  if (gpu.name.empty()) gpu.name = kUnknownDevice;
  if (const auto regions = function->read("resource")) gpu.memory = largest_region(*regions);
  return gpu;
}

}  // namespace

std::string read_machine_type(const std::string& path) {
  constexpr std::size_t kLongest = 4096;
  if (path.empty()) return "unknown";
  const auto text = os::read_file(path, kLongest);
  const std::string type = text ? std::string(trimmed(*text)) : "";
  return type.empty() ? "unknown" : type;
}

Result<Vgpu> read_vgpu(const std::string& root) {
  TRY(const auto functions, functions_of(root));
  Vgpu found;
  for (const auto& path : functions) {
    TRY(const auto config, os::read_file(path + "/config"));
    auto vgpu = vgpu_of(config);
    if (!vgpu) {
      vgpu.error().where = path;
      return std::unexpected(std::move(vgpu).error());
    }
    if (vgpu->present) found = *std::move(vgpu);
  }
  return found;
}

Result<gpu::Inventory> find_passed_through(const std::string& root) {
  TRY(const auto functions, functions_of(root));
  gpu::Inventory node;
  node.driver_version = kUnknownDriver;
  const std::string database = database_under(root);
  for (const auto& path : functions) {
    std::error_code none;
    const bool is_virtual = fs::exists(fs::symlink_status(path + "/physfn", none));
    if (is_virtual || fs::read_symlink(path + "/driver", none).filename() != "vfio-pci") continue;
    auto gpu = gpu_of(path, database);
    if (!gpu) continue;
    gpu->index = static_cast<std::uint32_t>(node.gpus.size());
    node.gpus.push_back(*std::move(gpu));
  }
  return node;
}

}  // namespace tranche::labels
