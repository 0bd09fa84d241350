#pragma once
// The scheduler's question for a node of devices only: does this pod fit now, and if not, in whose words. Pure.
#include <cstdint>
#include <map>
#include <string>

#include "standins/kubelet/pods.h"

namespace tranche::sim {

using Amounts = std::map<std::string, std::uint64_t>;  // resource → how many

Amounts asked_by(const PodSpec& pod);

// "" when it fits; otherwise "asks 4 nvidia.com/gpu, 2 free". A resource missing in `allocatable` is one the node does
// not offer. `taken`: asked by the pods that are bound already, whether or not their devices are healthy.
std::string why_not(const Amounts& asked, const Amounts& allocatable, const Amounts& taken);

}  // namespace tranche::sim
