// Any text is read as a checkpoint without harm; what is accepted is written and read back as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mig/driver/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::host;
  const auto parsed = parse_checkpoint({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  const auto again = parse_checkpoint(to_json_text(*parsed));
  if (!again || *again != *parsed) std::abort();
  (void)restoring_plan(*parsed, {}, false, "fuzz");
  return 0;
}
