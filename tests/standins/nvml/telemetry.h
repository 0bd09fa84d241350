#pragma once
// Readings that both single calls and the field-value call return, so that the two agree.
#include "session.h"

namespace tranche::sim::nvml {

u32 sm_clock_mhz(const Call& call);
u32 memory_clock_mhz(const Call& call);
u64 energy_mj(const Call& call);
bool links_in_use(const Call& call);  // the GPU has NVLinks and this node joins them
bool link_active(const Call& call, u32 link);

}  // namespace tranche::sim::nvml
