// compute-mode.json: what is accepted re-renders to something that means the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/daemon/compute_modes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::host;
  const auto journal = parse_mode_journal({reinterpret_cast<const char*>(data), size});
  if (!journal) return 0;
  const auto again = parse_mode_journal(render_mode_journal(*journal));
  if (!again || *again != *journal) std::abort();
  return 0;
}
