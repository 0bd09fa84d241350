#pragma once
// The scheduler's decision for a node with devices only: whether a pod fits now, and if not, the reason. Pure.
#include <cstdint>
#include <map>
#include <string>

#include "standins/kubelet/pods.h"

namespace tranche::sim {

using Amounts = std::map<std::string, std::uint64_t>;  // resource → how many

Amounts asked_by(const PodSpec& pod);

// "" if it fits; otherwise "asks 4 nvidia.com/gpu, 2 free". A resource missing in `allocatable` is not offered by the
// node. `taken`: requests of bound pods, whether or not their devices are healthy.
std::string why_not(const Amounts& asked, const Amounts& allocatable, const Amounts& taken);

}  // namespace tranche::sim
