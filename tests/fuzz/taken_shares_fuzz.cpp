// Any text as the journal of shares that were taken by force: what is read is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "grants/change/taken.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto shares = tranche::change::parse_taken({reinterpret_cast<const char*>(data), size});
  if (tranche::change::parse_taken(tranche::change::render_taken(shares)) != shares) std::abort();
  return 0;
}
