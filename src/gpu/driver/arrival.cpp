#include "gpu/driver/arrival.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string_view>

namespace tranche::host::nvml {

Arrival::Arrival(const std::string& system_root) : inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  const std::string folder = (system_root == "/" ? "" : system_root) + "/dev";
  if (inotify_ && ::inotify_add_watch(inotify_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO) < 0) inotify_.reset();
}

bool Arrival::seen() {
  if (!inotify_) return false;
  bool found = false;
  alignas(inotify_event) std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = ::read(inotify_.get(), buffer.data(), buffer.size())) > 0;) {
    for (const char* at = buffer.data(); at < buffer.data() + size;) {
      inotify_event event{};
      std::memcpy(&event, at, sizeof(event));
      found = found || (event.len > 0 && std::string_view(at + sizeof(event)) == "nvidiactl");
      at += sizeof(event) + event.len;
    }
  }
  return found;
}

}  // namespace tranche::host::nvml
