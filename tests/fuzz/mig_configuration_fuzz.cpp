// Any text is read as a MIG configuration without harm; what is accepted is written and read back as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/problem_list.h"
#include "gpu/mig/mig_models.h"
#include "mig/configuration.h"
#include "mig/mig_output.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche::mig;
  const auto parsed = parse_configuration_file({reinterpret_cast<const char*>(data), size}, "fuzz");
  for (const auto& problem : parsed.problems)
    if (problem.what.empty() || problem.remedy.empty() || problem.place.line < 0) std::abort();
  if (parsed.problems.size() > tranche::ProblemList::kMost + 1) std::abort();
  if (has_error(parsed.problems)) return 0;
  const auto yaml = parse_configuration_file(to_yaml(parsed.file), "again");
  if (has_error(yaml.problems) || to_yaml(yaml.file) != to_yaml(parsed.file)) std::abort();
  const auto json = parse_configuration_file(to_json_text(parsed.file), "again");
  if (has_error(json.problems) || to_yaml(json.file) != to_yaml(parsed.file)) std::abort();
  static const auto gpus = *simulated_node("2xA100-SXM4-40GB");
  for (const auto& configuration : parsed.file.configurations) {
    const auto plan = make_plan(configuration, gpus);
    if (plan.possible() && plan.as_wanted() != plan_json(plan).contains("\"asConfigured\": true,\n  \"possible\""))
      std::abort();
  }
  return 0;
}
