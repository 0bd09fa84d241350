#pragma once
// Between what the driver shows (gpu/driver) and the values that plans are made from (mig). Pure.
#include <functional>
#include <string>
#include <vector>

#include "mig/driver/layout.h"
#include "mig/plan.h"
#include "mig/state.h"

namespace tranche::host {

// Who uses a device beside the processes that the driver lists, by its UUID: a MIG device's, or the GPU's own.
using MigUsers = std::function<std::vector<mig::Holder>(const std::string& uuid)>;

mig::GpuState state_of(const MigGpu& gpu, const MigUsers& users);
// The layout that a plan ends in.
MigLayout target_of(const mig::GpuPlan& plan);

}  // namespace tranche::host
