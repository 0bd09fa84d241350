// Any text as /proc/<pid>/cgroup: a container with a pod's UID and an id of the allowed shape, or none.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "containers/attribution.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto container = tranche::containers::container_of_cgroup({reinterpret_cast<const char*>(data), size});
  if (!container) return 0;
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-'; };
  if (container->id.size() != 64 || !std::ranges::all_of(container->id, plain)) std::abort();
  if (container->pod_uid.size() < 32 || !std::ranges::all_of(container->pod_uid, plain)) std::abort();
  return 0;
}
