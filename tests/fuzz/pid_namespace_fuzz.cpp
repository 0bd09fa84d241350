// Any text as /proc/<pid>/status: at most one answer, and no line before "NSpid:" changes it.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "guard/pid_namespace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const bool first = tranche::guard::is_first_of_namespace(text);
  if (tranche::guard::is_first_of_namespace("Name:\tx\n" + text) != first) std::abort();
  return 0;
}
