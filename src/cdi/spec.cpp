#include "cdi/spec.h"

#include <algorithm>

namespace tranche::cdi {
namespace {

// Whether any edits in a spec pass the test.
template <class Test>
bool any_edits(const Spec& spec, Test test) {
  return test(spec.edits) || std::ranges::any_of(spec.devices, [&](const Device& d) { return test(d.edits); });
}

bool starts_with_digit(const Device& device) {
  return !device.name.empty() && device.name.front() >= '0' && device.name.front() <= '9';
}

}  // namespace

std::string minimum_version(const Spec& spec) {
  if (any_edits(spec, [](const Edits& e) { return !e.additional_gids.empty(); })) return "0.7.0";
  if (!spec.annotations.empty() || spec.cls.find('.') != std::string::npos ||
      std::ranges::any_of(spec.devices, [](const Device& d) { return !d.annotations.empty(); })) {
    return "0.6.0";
  }
  const auto has_host_path = [](const Edits& e) {
    return std::ranges::any_of(e.device_nodes, [](const DeviceNode& node) { return !node.host_path.empty(); });
  };
  if (std::ranges::any_of(spec.devices, starts_with_digit) || any_edits(spec, has_host_path)) return "0.5.0";
  const auto has_mount_type = [](const Edits& e) {
    return std::ranges::any_of(e.mounts, [](const Mount& mount) { return !mount.type.empty(); });
  };
  return any_edits(spec, has_mount_type) ? "0.4.0" : "0.3.0";
}

std::string file_name(const std::string& cls) {
  return std::string(kVendor) + "-" + cls + ".json";
}

}  // namespace tranche::cdi
