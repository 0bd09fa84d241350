// Any text of pods is read without harm: every Problem says what and what to do, names are given once, and what is read
// stays within the bounds that are promised, however often a text refers to itself.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>

#include "base/quantity.h"
#include "simulate/pods.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tranche;
  using namespace tranche::simulate;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
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
  return 0;
}
