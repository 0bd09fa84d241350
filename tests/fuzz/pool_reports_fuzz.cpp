// Any text as an answer of `tranche mps`: reports or an Error; what is accepted has ids and states.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "mps/protocol/pool_reports.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (const auto reports = tranche::agent::parse_pool_reports({reinterpret_cast<const char*>(data), size})) {
    for (const auto& [id, pool] : reports->pools) {
      if (id.empty() || id != pool.id || pool.state.empty()) std::abort();
    }
  }
  return 0;
}
