#pragma once
// Snapshot → reports for people and programs: the status document (docs/reference/status.md) and the metrics page.
// Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/long_text.h"
#include "gpu/driver/gpu_telemetry.h"
#include "guard/figures.h"
#include "node/snapshot.h"
#include "observe/metrics/page.h"

namespace tranche::agent {

// `shares`: the limits that it enforces.
nlohmann::ordered_json guard_json(const GuardReport& report, const grants::Shares& shares);
void put_guard(metrics::Page& page, const GuardReport& report);
// In JSON; `gpus`: their activity, as far as it was measured. No more than one element of its lists is a JSON value at
// a time.
LongText status_document(const Snapshot& snapshot, const std::vector<host::GpuTelemetry>& gpus);
// The part for any client of the network: without process ids and names, pod UIDs, container ids and files of the node.
// Includes the memory that each grant uses, if the guard knows it.
LongText network_document(const Snapshot& snapshot, const guard::Figures& figures,
                          const std::vector<host::GpuTelemetry>& gpus);
metrics::Page metrics_page(const Snapshot& snapshot);

}  // namespace tranche::agent
