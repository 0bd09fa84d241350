// Any text is read as a checkpoint without harm; what is accepted is refused by a node without its GPUs.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mig/driver/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::host;
  const auto parsed = parse_checkpoint({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  const auto plan = restoring_plan(*parsed, {}, false, "fuzz");
  if (plan.possible() != parsed->gpus.empty()) std::abort();
  return 0;
}
