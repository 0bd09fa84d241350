#include "gpu/driver/kernel_signs.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "gpu/inventory/inventory.h"
#include "os/files/files.h"

namespace tranche::gpu::nvml {
namespace {

bool is_device(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.starts_with(kPrefix) && parse_unsigned(name.substr(kPrefix.size())).has_value();
}

bool is_address(std::string_view name) {
  return std::ranges::count(name, ':') == 2 && name.find('.') != std::string_view::npos;
}

template <class Wanted>
std::vector<std::string> wanted_in(const std::string& folder, const Wanted& wanted) {
  auto names = os::names_in(folder);
  std::erase_if(names, [&](const std::string& name) { return !wanted(name); });
  return names;
}

// The folder of the function; "" if the input is not an address.
std::string folder_of(const std::string& root, std::string_view bus_id) {
  const std::string address = sysfs_address(bus_id);
  return address.empty() ? "" : os::under_root(root, "/sys/bus/pci/devices/" + address);
}

std::string attribute_of(const std::string& root, std::string_view bus_id, const std::string& name) {
  const std::string folder = folder_of(root, bus_id);
  return folder.empty() ? "" : std::string(trimmed(os::read_file(folder + "/" + name).value_or("")));
}

}  // namespace

KernelSigns look_at_kernel(const std::string& root) {
  KernelSigns signs;
  signs.devices = wanted_in(os::under_root(root, "/dev"), is_device);
  signs.addresses = wanted_in(os::under_root(root, "/sys/bus/pci/drivers/nvidia"), is_address);
  signs.version = trimmed(os::read_file(os::under_root(root, "/sys/module/nvidia/version")).value_or(""));
  return signs;
}

bool is_node_of_driver(std::string_view name) {
  return is_device(name) || name == "nvidiactl";
}

bool has_function(const std::string& root, std::string_view nvml_bus_id) {
  const std::string folder = folder_of(root, nvml_bus_id);
  return !folder.empty() && ::access(folder.c_str(), F_OK) == 0;
}

Result<std::optional<std::uint32_t>> numa_node_of(const std::string& root, std::string_view nvml_bus_id) {
  constexpr std::int64_t kMostNodes = 0xffff;
  const std::string text = attribute_of(root, nvml_bus_id, "numa_node");
  if (text.empty()) return std::nullopt;
  const std::optional<std::int64_t> node = parse_signed(text);
  if (!node || *node > kMostNodes)
    return fail(Kind::kInvalid, in_quotes(text) + " is not the number of a NUMA node",
                folder_of(root, nvml_bus_id) + "/numa_node");
  if (*node < 0) return std::nullopt;
  return static_cast<std::uint32_t>(*node);
}

// The function's directory is a link: "../../../devices/pci0000:00/0000:00:01.0/0000:3b:00.0".
std::string pcie_root_of(const std::string& root, std::string_view nvml_bus_id) {
  constexpr std::size_t kLongestRoot = 16;
  const std::string target = os::read_link(folder_of(root, nvml_bus_id)).value_or("");
  for (const auto part : split(target, '/'))
    if (part.starts_with("pci") && part.contains(':') && part.size() <= kLongestRoot) return std::string(part);
  return {};
}

std::optional<std::uint32_t> pci_class_of(const std::string& root, std::string_view nvml_bus_id) {
  std::string text = attribute_of(root, nvml_bus_id, "class");
  if (!text.starts_with("0x")) return std::nullopt;
  const std::optional<std::uint64_t> number = parse_unsigned(std::string_view(text).substr(2), 16);
  if (!number || *number > 0xffffff) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

}  // namespace tranche::gpu::nvml
