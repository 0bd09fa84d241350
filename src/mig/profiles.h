#pragma once
// What GPUs can be cut into and what of it is free now, for people and programs: the list of `tranche mig profiles`.
// Pure.
#include <string>
#include <vector>

#include "gpu/mig/state.h"

namespace tranche::mig {

std::string why_no_profiles(const GpuState& gpu);  // "" = it has some

// GPUs that are cut alike stand together.
std::string profiles_text(const std::vector<GpuState>& gpus, bool colour);
std::string profiles_json(const std::vector<GpuState>& gpus);

}  // namespace tranche::mig
