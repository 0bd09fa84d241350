// Any text is read without harm; a spec that is accepted is written and read back to itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cdi/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  const auto parsed = cdi::parse_spec({reinterpret_cast<const char*>(data), size}, "fuzz");
  for (const auto& problem : parsed.problems)
    if (problem.what.empty() || problem.remedy.empty()) std::abort();
  if (has_error(parsed.problems)) return 0;
  const auto again = cdi::parse_spec(cdi::render(parsed.spec), "again");
  if (has_error(again.problems) || again.spec != parsed.spec) std::abort();
  return 0;
}
