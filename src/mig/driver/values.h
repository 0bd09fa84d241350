#pragma once
// From what the driver shows (gpu/driver) to the values that plans are made from (mig). Pure.
#include <functional>
#include <string>
#include <vector>

#include "gpu/driver/mig/mig_admin.h"
#include "mig/state.h"

namespace tranche::host {

// Who uses a device beside the processes that the driver lists, by its UUID: a MIG device's, or the GPU's own.
using MigUsers = std::function<std::vector<mig::Holder>(const std::string& uuid)>;

mig::GpuState state_of(const MigGpu& gpu, const MigUsers& users);

}  // namespace tranche::host
