// Any text as an earlier release's file of shares that were taken by force: what is read is written and read back the
// same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "grants/shares.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto shares = tranche::grants::parse_taken({reinterpret_cast<const char*>(data), size});
  if (tranche::grants::parse_taken(tranche::grants::render_taken(shares)) != shares) std::abort();
  return 0;
}
