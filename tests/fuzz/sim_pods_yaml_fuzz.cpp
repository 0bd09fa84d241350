// Pod files as people write them. Beyond "no crash": every pod that is accepted can be run and named.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "standins/kubelet/pods.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = tranche::sim::parse_pods(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.yaml");
  for (const auto& pod : file.pods) {
    if (pod.name.empty() || pod.pod_namespace.empty() || pod.containers.empty()) std::abort();
    for (const auto& container : pod.containers) {
      if (container.name.empty() || container.command.empty()) std::abort();
    }
  }
  for (const auto& problem : file.problems) {
    if (problem.what.empty() || problem.remedy.empty()) std::abort();
  }
  return 0;
}
