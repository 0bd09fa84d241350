#include "standins/kubelet/schedule.h"

#include <fmt/format.h>

#include <vector>

#include "base/text.h"

namespace tranche::sim {

Amounts asked_by(const PodSpec& pod) {
  Amounts result;
  for (const PodContainer& container : pod.containers) {
    for (const auto& [resource, count] : container.resources) {
      if (count > 0) result[resource] += count;
    }
  }
  return result;
}

std::string why_not(const Amounts& asked, const Amounts& allocatable, const Amounts& taken) {
  std::vector<std::string> reasons;
  for (const auto& [resource, count] : asked) {
    const auto offered = allocatable.find(resource);
    if (offered == allocatable.end()) {
      reasons.push_back(fmt::format("asks {} {}, which this node does not offer", count, resource));
      continue;
    }
    const auto held = taken.find(resource);
    const std::uint64_t used = held == taken.end() ? 0 : held->second;
    const std::uint64_t free = offered->second > used ? offered->second - used : 0;
    if (count > free) reasons.push_back(fmt::format("asks {} {}, {} free", count, resource, free));
  }
  return join(reasons, "; ");
}

}  // namespace tranche::sim
