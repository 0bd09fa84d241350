#pragma once
// The page of `tranche node` for people: GPUs as bars with the tenants in them, limits and use, health with reasons,
// what waits, recent stops and faults, the configuration in effect. One HTML document without scripts and without
// anything from elsewhere; every name in it is text. It names pods, and shows no process ids. `reload`:
// the browser asks again every 10 s, which readers with a screen reader want to choose. Pure.
#include <vector>

#include "base/long_text.h"
#include "gpu/driver/gpu_telemetry.h"
#include "node/observe/tenant_metrics.h"
#include "node/snapshot.h"

namespace tranche::agent {

LongText html_page(const Snapshot& snapshot, const guard::Figures& figures, const std::vector<host::GpuTelemetry>& gpus,
                   MonoTime now, bool reload = false);

}  // namespace tranche::agent
