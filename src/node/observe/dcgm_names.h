#pragma once
// What is known of GPUs and tenants under the names, units and labels of NVIDIA's DCGM exporter since its release 4.9,
// for dashboards that exist (docs/reference/metrics.md#dcgm-names). A page of its own, because its rows repeat those of
// /metrics. A row that names no pod is of the device; a device of which one container holds all slots names that one. A
// field that cannot be known is left out. Pure.
#include <string>
#include <vector>

#include "base/long_text.h"
#include "gpu/driver/gpu_telemetry.h"
#include "guard/figures.h"
#include "node/snapshot.h"

namespace tranche::agent {

LongText dcgm_metrics(const Snapshot& snapshot, const guard::Figures& figures,
                      const std::vector<host::GpuTelemetry>& gpus);

}  // namespace tranche::agent
