// Any text as the journal of what grants are worth: what is read is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "guard/worth_journal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto worths = tranche::guard::parse_worths({reinterpret_cast<const char*>(data), size});
  if (tranche::guard::parse_worths(tranche::guard::render_worths(worths)) != worths) std::abort();
  return 0;
}
