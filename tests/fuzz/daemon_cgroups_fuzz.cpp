// /proc/self/cgroup → cgroups for a daemon: whatever it says, they lie below the root and end with the pool.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "mps/daemon/daemon_home.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& dir : tranche::host::daemon_cgroups(text, "/r", "gpu-1")) {
    if (!dir.starts_with("/r/") || !dir.ends_with("/tranche/gpu-1")) std::abort();
    if (dir.find("/../") != std::string::npos || dir.find('\0') != std::string::npos) std::abort();
  }
  return 0;
}
