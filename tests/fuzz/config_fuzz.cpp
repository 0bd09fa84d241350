// Configuration, command lines, and the files of other programs that say what a node offers.
#include <set>
#include <vector>

#include "base/problem.h"
#include "base/units.h"
#include "cdi/csv.h"
#include "cli/commands.h"
#include "config/choose.h"
#include "config/document/amounts.h"
#include "config/names.h"
#include "config/parse/parse.h"
#include "config/resolve.h"
#include "fuzz/target.h"
#include "gemm-check/gemm.h"
#include "simulate/land.h"

using namespace tranche;

namespace {

tranche::config::Config without_places(tranche::config::Config config) {
  for (auto& resource : config.sharing.resources) resource.place = {};
  return config;
}

}  // namespace

// Any text is parsed without harm; what is accepted is written as JSON and read back to the same configuration.
FUZZ(config_yaml) {
  using namespace tranche::config;
  const Parsed parsed = parse(text, "fuzz");
  for (const auto& problem : parsed.problems)
    if (problem.what.empty() || problem.remedy.empty() || problem.place.line < 0) std::abort();
  const Parsed strict = parse(text, "fuzz", UnknownKeys::kRefused);
  if (parsed.problems.size() > tranche::ProblemList::kMost + 1) std::abort();
  if (strict.problems.size() != parsed.problems.size()) std::abort();
  if (has_error(parsed.problems)) return;
  const Parsed again = parse(render_line(parsed.config), "again");
  if (has_error(again.problems) || without_places(again.config) != without_places(parsed.config)) std::abort();
}

// The small grammars inside configuration values: what is accepted is read back to the same, and names that a pattern
// gives are names or refused.
FUZZ(config_values) {
  using namespace tranche::config;
  if (const auto bytes = parse_memory_size(text)) {
    if (bytes->in_mib() == 0 || parse_memory_size(render_memory_size(*bytes)) != bytes) std::abort();
  }
  if (const auto factor = read_factor(resolve_plain(text)); factor && (*factor < 1 || *factor > 10000)) std::abort();
  if (const auto pattern = name_pattern(text)) {
    if (const auto again = name_pattern(*pattern); !again || *again != *pattern) std::abort();
    if (const auto name = resource_name(expand(*pattern, {"12", 80, "NVIDIA H200"})); name && name->size() > 63)
      std::abort();
  }
  if (const auto address = pci_address(text); address && pci_address(*address) != address) std::abort();
  if (text.find('*') == std::string_view::npos && !matches(text, text)) std::abort();
  if (!matches(text, "*")) std::abort();
  (void)is_device_reference(text);
}

// Any text as the file of the configuration in force: what is read is written and read back the same.
FUZZ(chosen_config) {
  const auto chosen = tranche::config::parse_chosen(text);
  if (chosen && tranche::config::parse_chosen(tranche::config::render_chosen(*chosen)) != chosen) std::abort();
}

// Any command line is read without harm: words begin with a flag, the rest is an end of what was given, and words that
// were read once are all flags when read again.
FUZZ(go_arguments) {
  using namespace tranche::cli;
  std::vector<std::string> arguments(1);
  for (const char c : text) {
    if (c == '\n')
      arguments.emplace_back();
    else
      arguments.back() += c;
  }
  const auto takes_value = [](std::string_view name) { return name.size() % 2 == 0; };
  const GoArguments read = read_go_arguments(arguments, takes_value);
  if (read.rest.size() > arguments.size()) std::abort();
  for (std::size_t i = 0; i < read.rest.size(); ++i)
    if (read.rest[i] != arguments[arguments.size() - read.rest.size() + i]) std::abort();
  if (!read.words.empty() && !read.words.front().starts_with('-')) std::abort();
  const GoArguments again = read_go_arguments(read.words, takes_value);
  if (again.words != read.words || !again.rest.empty()) std::abort();
}

// Any text is read without harm; what is accepted is read again from its own plain form.
FUZZ(cdi_csv) {
  using namespace tranche::cdi;
  const auto parsed = parse_csv(text, "fuzz");
  for (const auto& problem : parsed.problems)
    if (problem.what.empty() || problem.remedy.empty() || problem.place.line <= 0 || problem.place.column <= 0)
      std::abort();
  std::string plain;
  for (const auto& entry : parsed.entries) plain += std::string(to_string(entry.kind)) + "," + entry.path + "\n";
  const auto again = parse_csv(plain, "again");
  if (!again.problems.empty() || again.entries != parsed.entries) std::abort();
}

// Any text of pods is read without harm: every Problem says what and what to do, names are given once, and what is read
// stays within the bounds that are promised, however often a text refers to itself.
FUZZ(pods) {
  using namespace tranche::simulate;
  if (const auto count = parse_count(text); count && *count > kMostDevices) std::abort();
  const PodsRead read = read_pods(text, "fuzz");
  for (const auto& problem : read.problems)
    if (problem.what.empty() || problem.remedy.empty() || problem.place.line < 0) std::abort();
  if (read.pods.empty() && read.unknown.empty() && !has_error(read.problems)) std::abort();
  if (read.pods.size() > kMostPods) std::abort();
  std::set<std::string> names;
  for (const auto& pod : read.pods) {
    if (pod.name.empty() || pod.pod_namespace.empty() || !names.insert(pod.full_name()).second) std::abort();
    if (pod.claims.size() > 32) std::abort();
    for (const auto& container : pod.containers) {
      for (const auto& [resource, count] : container.resources)
        if (count == 0 || count > kMostDevices || resource.find('/') == std::string::npos) std::abort();
    }
  }
  if (read_pod_page(text, "fuzz").pods != read.pods) std::abort();
}

// Shapes that parse are within bounds and read back as they are written; types that parse have a name.
FUZZ(gemm_options) {
  using namespace tranche::gemm_check;
  if (const auto shapes = parse_gemm_shapes(text)) {
    if (shapes->empty()) std::abort();
    for (const GemmShape& shape : *shapes) {
      if (shape.m == 0 || shape.m > kLargestSide || shape.n == 0 || shape.k > kLargestSide) std::abort();
      const auto again = parse_gemm_shapes(to_string(shape));
      if (!again || again->size() != 1 || again->front() != shape) std::abort();
    }
  }
  if (const auto types = parse_gemm_types(text)) {
    for (const GemmType type : *types)
      if (to_string(type) == "?") std::abort();
  }
}
