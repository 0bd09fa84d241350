#include "cdi/spec.h"

#include <algorithm>

namespace tranche::cdi {
namespace {

bool has_host_path(const Edits& edits) {
  return std::ranges::any_of(edits.device_nodes, [](const DeviceNode& node) { return !node.host_path.empty(); });
}

bool needs_0_5_0(const Device& device) {
  const bool starts_with_digit = !device.name.empty() && device.name.front() >= '0' && device.name.front() <= '9';
  return starts_with_digit || has_host_path(device.edits);
}

}  // namespace

std::string minimum_version(const Spec& spec) {
  return has_host_path(spec.edits) || std::ranges::any_of(spec.devices, needs_0_5_0) ? "0.5.0" : "0.3.0";
}

std::string file_name(const std::string& cls) {
  return std::string(kVendor) + "-" + cls + ".json";
}

}  // namespace tranche::cdi
