// Any bytes as a memory map, and as the environment of a process.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "os/process/environment.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::host;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto libc = libc_in(text); libc && libc->path.empty()) std::abort();
  (void)mapped_in(text, "/usr/bin/python3");
  if (const auto value = variable_in(text, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"))
    if (value->size() > kLongestVariable || value->find('\0') != std::string::npos) std::abort();
  return 0;
}
