#pragma once
// What the node agent shows on its HTTP pages: /metrics, /readyz (503 and one line while the node does not do what it
// is there for) and /status, the part of the status document that the network may see. They read the newest snapshot,
// on one thread at a time. A new snapshot is shown at once; what changes without one, the figures of GPUs and tenants,
// is rendered at most once a second.
#include <functional>

#include "guard/figures.h"
#include "node/gpu/gpu_figures.h"
#include "node/snapshot.h"
#include "os/http/http.h"

namespace tranche::node {

// All outlive the server.
struct NodePages {
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
