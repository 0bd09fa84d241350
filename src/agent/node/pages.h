#pragma once
// What the node agent shows on its HTTP pages: /metrics, /readyz (503 and one line while the node does not do what it
// is there for) and /status, the part of the status document that the network may see. They read the newest snapshot,
// on one thread at a time, and make a page once for each snapshot, however often it is asked for. What changes without
// a snapshot, the figures of tenants, is made anew at most once a second.
#include "agent/node/snapshot.h"
#include "guard/figures.h"
#include "host/http/http.h"

namespace tranche::agent {

host::HttpServer::Routes node_pages(const SnapshotBox& box,
                                    const guard::SharedFigures& figures);  // both outlive the server

}  // namespace tranche::agent
