#pragma once
// What people and programs see of MIG: a plan, and what GPUs can be cut into with what of it is free now (the list of
// `tranche mig profiles`). Pure.
#include <string>
#include <vector>

#include "gpu/mig/state.h"
#include "mig/mig_plan.h"

namespace tranche::mig {

std::string plan_text(const Plan& plan, bool colour, int width);
std::string plan_json(const Plan& plan);

std::string why_no_profiles(const GpuState& gpu);  // "" = it has some
// GPUs with the same layout share a section.
std::string profiles_text(const std::vector<GpuState>& gpus, bool colour);
std::string profiles_json(const std::vector<GpuState>& gpus);

}  // namespace tranche::mig
