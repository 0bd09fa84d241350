// CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: what is accepted re-renders to something that means the same, and never to zero.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plan/client_limits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto first = tranche::plan::parse_pinned_limit({reinterpret_cast<const char*>(data), size});
  if (!first) return 0;
  for (const auto& [uuid, memory] : *first) {
    if (memory.in_mib() == 0 || !tranche::plan::is_gpu_uuid(uuid)) std::abort();
  }
  const auto again = tranche::plan::parse_pinned_limit(tranche::plan::render_pinned_limit(*first));
  if (!again || *again != *first) std::abort();
  return 0;
}
