#pragma once
// The node agent's HTTP pages: /metrics, /healthz (the process is alive), /readyz (503 and one line while the node does
// not do what it is there for) and /status. They read the newest snapshot; any thread.
#include "agent/node/snapshot.h"
#include "host/http/http.h"

namespace tranche::agent {

host::HttpServer::Routes node_pages(const SnapshotBox& box);  // which outlives the server

}  // namespace tranche::agent
