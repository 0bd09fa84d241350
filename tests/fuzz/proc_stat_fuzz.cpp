// /proc/<pid>/stat: a process names itself, so the name must not be able to move the field that is read.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "os/process/proc_stat.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)tranche::host::parse_start_ticks(text);
  if (const auto head = tranche::host::parse_stat_head(text)) {
    for (const char c : head->name)
      if (c < ' ' || c > '~') std::abort();
  }
  const std::string stat = "1 (" + text + ") S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3\n";
  if (tranche::host::parse_start_ticks(stat) != 987654u) std::abort();
  return 0;
}
