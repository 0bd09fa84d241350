#include "cdi/roots.h"

namespace tranche::cdi {
namespace {

std::string_view without_slash_at_end(std::string_view path) {
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return path;
}

}  // namespace

std::string below(std::string_view root, std::string_view path) {
  return std::string(without_slash_at_end(root)).append(path);
}

HostRoots host_roots(const Settings& settings) {
  const config::Flags& flags = settings.flags;
  HostRoots roots;
  roots.driver = without_slash_at_end(flags.nvidia_driver_root);
  if (settings.nodes_in_driver_root || flags.nvidia_dev_root.empty()) {
    roots.devices = roots.driver;
    return roots;
  }
  std::string_view devices = without_slash_at_end(flags.nvidia_dev_root);
  if (devices.ends_with("/dev")) devices = without_slash_at_end(devices.substr(0, devices.size() - 4));
  roots.devices = devices;
  return roots;
}

}  // namespace tranche::cdi
