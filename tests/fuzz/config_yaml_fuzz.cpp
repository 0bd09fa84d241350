// Any text is parsed without harm; what is accepted is written as JSON and read back to the same configuration.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/problem_list.h"
#include "config/parse/parse.h"
#include "config/report.h"

namespace {

tranche::config::Config without_places(tranche::config::Config config) {
  for (auto& resource : config.sharing.resources) resource.place = {};
  return config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::config;
  const Parsed parsed = parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  for (const auto& problem : parsed.problems)
    if (problem.what.empty() || problem.remedy.empty() || problem.place.line < 0) std::abort();
  const Parsed strict = parse({reinterpret_cast<const char*>(data), size}, "fuzz", UnknownKeys::kRefused);
  if (parsed.problems.size() > tranche::ProblemList::kMost + 1) std::abort();
  if (strict.problems.size() != parsed.problems.size()) std::abort();
  if (has_error(parsed.problems)) return 0;
  const Parsed again = parse(render_line(parsed.config), "again");
  if (has_error(again.problems) || without_places(again.config) != without_places(parsed.config)) std::abort();
  return 0;
}
