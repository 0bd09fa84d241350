#pragma once
// Snapshot → reports for people and programs: whether this node serves, what it enforces, the status document
// (docs/reference/status.md), the metrics pages and the page of the node. Pure, except node_pages().
#include <functional>
#include <string>
#include <vector>

#include "base/text.h"
#include "gpu/driver/nvml.h"
#include "guard/figures.h"
#include "kube/object.h"
#include "node/gpu/gpu_figures.h"
#include "node/snapshot.h"
#include "observe/metrics/page.h"
#include "observe/view/view.h"
#include "os/http/http.h"

namespace tranche::node {

// The state of this node as the condition TrancheReady of its Node (docs/internals/kubernetes.md).
// True while slots can be allocated, even with a reason other than "Serving" that needs an operator's attention.
kube::NodeCondition node_condition(const NodeView& node);

// The same for a probe, a person and the status document, and if it does not serve, why: while it is ready, with a
// message and without a reason. A process that is alive and waits is not ready; a node without a driver counts as one
// that does not need one only with failOnInitError: false.
kube::NodeCondition readiness(const NodeView& node);

// Which promises this node enforces at this moment, and by which mechanism, so that users need not infer it from
// settings (docs/guide/security.md has the same rows with the reasons). Empty on a node without MPS pools.
std::vector<view::Promise> in_force(const Snapshot& snapshot);

// In JSON; `gpus`: their activity, as far as it was measured. No more than one element of its lists is a JSON value at
// a time.
LongText status_document(const Snapshot& snapshot, const std::vector<gpu::GpuTelemetry>& gpus);
// The part for any client of the network: without process ids and names, pod UIDs, container ids and files of the node.
// Includes the memory that each grant uses, if the guard knows it.
LongText network_document(const Snapshot& snapshot, const guard::Figures& figures,
                          const std::vector<gpu::GpuTelemetry>& gpus);
metrics::Page metrics_page(const Snapshot& snapshot);

// What is known of GPUs and tenants under the names, units and labels of NVIDIA's DCGM exporter since its release 4.9,
// for dashboards that exist (docs/reference/metrics.md#dcgm-names). A page of its own, because its rows repeat those of
// /metrics. A row that names no pod is of the device; a device of which one container holds all slots names that one. A
// field that cannot be known is left out.
LongText dcgm_metrics(const Snapshot& snapshot, const guard::Figures& figures,
                      const std::vector<gpu::GpuTelemetry>& gpus);

// The page of `tranche node` for people: GPUs as bars with the tenants in them, limits and use, health with reasons,
// what waits, recent stops and faults, the configuration in effect. One HTML document without scripts and without
// anything from elsewhere; every name in it is text. It names pods, and shows no process ids. `reload`:
// the browser asks again every 10 s, which readers with a screen reader want to choose.
LongText html_page(const Snapshot& snapshot, const guard::Figures& figures, const std::vector<gpu::GpuTelemetry>& gpus,
                   MonoTime now, bool reload = false);

// The HTTP pages: /metrics, /readyz (503 and one line while the node does not do what it is there for) and /status, the
// part of the status document that the network may see. They read the newest snapshot, on one thread at a time. A new
// snapshot is shown at once; what changes without one, the figures of GPUs and tenants, is rendered at most once a
// second. Reads the clock.
struct NodePages {  // all outlive the server
  const SnapshotBox* snapshots;
  const guard::SharedFigures* tenants;
  GpuFigures* gpus;
  std::function<void()> looked;  // a reader asked for the GPUs' figures; on the pages' thread
  bool dcgm_names = false;       // also /metrics/dcgm
};
struct ServedPages {
  os::HttpServer::Routes routes;
  std::function<void()> at_rest;  // drops the texts that no reader has asked for again; on the pages' thread
};
ServedPages node_pages(NodePages of);

}  // namespace tranche::node
