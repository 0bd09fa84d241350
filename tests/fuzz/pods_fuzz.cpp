// Any text of pods is read without harm: every Problem says what and what to do, names are given once, and what is read
// stays within the bounds that are promised, however often a text refers to itself.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "simulate/pods.h"
#include "simulate/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  using namespace tranche::simulate;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto count = parse_count(text); count && *count > kMostDevices) std::abort();
  const PodsRead read = read_pods(text, "fuzz");
  for (const auto& problem : read.problems)
    if (problem.what.empty() || problem.remedy.empty() || problem.place.line < 0) std::abort();
  if (read.pods.empty() && !has_error(read.problems)) std::abort();
  if (read.pods.size() > kMostPods) std::abort();
  std::set<std::string> names;
  for (const auto& pod : read.pods) {
    if (pod.name.empty() || pod.pod_namespace.empty() || !names.insert(pod.full_name()).second) std::abort();
    for (const auto& container : pod.containers) {
      for (const auto& use : container.claims)
        if (std::ranges::find(pod.claims, use.name, &PodClaim::name) == pod.claims.end()) std::abort();
      for (const auto& [resource, count] : container.resources)
        if (count == 0 || count > kMostDevices || resource.find('/') == std::string::npos) std::abort();
    }
  }
  for (const auto* specs : {&read.objects.claims, &read.objects.templates})
    for (const auto& [name, spec] : *specs)
      for (const auto& request : spec.requests)
        if (!name.contains('/') || request.either.empty() || request.either.size() > 8) std::abort();
  const Selector selector = parse_selector(text);
  if (selector.terms && selector.terms->empty()) std::abort();
  const std::string driver = "d";
  const std::map<std::string, std::string> none;
  if (!selector.terms && match(selector, {driver, none, true}) != Match::kYes) std::abort();
  if (read_pod_page(text, "fuzz").pods != read.pods) std::abort();
  return 0;
}
