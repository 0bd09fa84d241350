#pragma once
// The configurations that exist without a file, by NVIDIA's names: all-disabled, all-enabled, all-balanced, and
// all-<profile> for every profile of the GPUs at hand ("+" of a profile is "." in the name). Pure.
#include <string>
#include <vector>

#include "gpu/mig/state.h"
#include "mig/configuration.h"

namespace tranche::mig {

// Of these GPUs. Entries have a device filter only where GPUs differ in what a name means.
ConfigurationFile default_configurations(const std::vector<GpuState>& gpus);

// What the node is cut into as a configuration of that name, as mig-parted exports it: GPUs of equal state together.
ConfigurationFile exported(const std::vector<GpuState>& gpus, const std::string& name);

}  // namespace tranche::mig
