#include "gpu/driver/kernel_signs.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/text.h"
#include "os/files/files.h"

namespace tranche::gpu::nvml {
namespace {

bool is_device(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.starts_with(kPrefix) && parse_unsigned(name.substr(kPrefix.size())).has_value();
}

// The control device appears when the driver's module is loaded.
bool is_node_of_driver(std::string_view name) {
  return is_device(name) || name == "nvidiactl";
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

}  // namespace

KernelSigns look_at_kernel(const std::string& root) {
  KernelSigns signs;
  signs.devices = wanted_in(os::under_root(root, "/dev"), is_device);
  signs.addresses = wanted_in(os::under_root(root, "/sys/bus/pci/drivers/nvidia"), is_address);
  signs.version = trimmed(os::read_file(os::under_root(root, "/sys/module/nvidia/version")).value_or(""));
  return signs;
}

DeviceHints::DeviceHints(const std::string& root) : inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  constexpr std::uint32_t kEvents = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
  if (inotify_ && ::inotify_add_watch(inotify_.get(), os::under_root(root, "/dev").c_str(), kEvents) < 0)
    inotify_.reset();
}

bool DeviceHints::seen() {
  if (!inotify_) return false;
  bool found = false;
  alignas(inotify_event) std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = ::read(inotify_.get(), buffer.data(), buffer.size())) > 0;) {
    for (const char* at = buffer.data(); at < buffer.data() + size;) {
      inotify_event event{};
      std::memcpy(&event, at, sizeof(event));
      found = found || (event.mask & IN_Q_OVERFLOW) != 0 || (event.len > 0 && is_node_of_driver(at + sizeof(event)));
      at += sizeof(event) + event.len;
    }
  }
  return found;
}

}  // namespace tranche::gpu::nvml
