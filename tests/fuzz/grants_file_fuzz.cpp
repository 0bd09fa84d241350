// Any text as the agent's record of grants: what is read is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "grants/grant_shares.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto shares = tranche::grants::parse_shares({reinterpret_cast<const char*>(data), size});
  if (tranche::grants::parse_shares(tranche::grants::render_shares(shares)) != shares) std::abort();
  return 0;
}
