// compute-mode.json: what is accepted re-renders to something that means the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/daemon/compute_modes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::host;
  const auto earlier = parse_earlier_modes({reinterpret_cast<const char*>(data), size});
  if (!earlier) return 0;
  const auto again = parse_earlier_modes(render_earlier_modes(*earlier));
  if (!again || *again != *earlier) std::abort();
  return 0;
}
