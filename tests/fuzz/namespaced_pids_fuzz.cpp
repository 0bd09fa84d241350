// Any text as a process's status: the pids are positive, and no line before "NSpid:" changes them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "os/process/proc_stat.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto pids = tranche::host::parse_namespaced_pids(text);
  if (std::ranges::any_of(pids, [](pid_t pid) { return pid <= 0; })) std::abort();
  if (tranche::host::parse_namespaced_pids("Name:\tx\n" + text) != pids) std::abort();
  return 0;
}
