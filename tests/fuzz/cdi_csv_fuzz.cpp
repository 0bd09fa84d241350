// Any text is read without harm; what is accepted is read again from its own plain form.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cdi/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::cdi;
  const auto parsed = parse_csv({reinterpret_cast<const char*>(data), size}, "fuzz");
  for (const auto& problem : parsed.problems)
    if (problem.what.empty() || problem.remedy.empty() || problem.place.line <= 0 || problem.place.column <= 0)
      std::abort();
  std::string plain;
  for (const auto& entry : parsed.entries) plain += std::string(to_string(entry.kind)) + "," + entry.path + "\n";
  const auto again = parse_csv(plain, "again");
  if (!again.problems.empty() || again.entries != parsed.entries) std::abort();
  return 0;
}
