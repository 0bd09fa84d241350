#pragma once
// `tranche web`: a page of the cluster on this machine's loopback, for one person at a time. Reads the status pages of
// the node agents through the API server with that person's rights, and changes nothing. Blocks until a signal.

#include "base/time.h"
#include "config/resolve.h"
#include "observe/cluster/agent_statuses.h"

namespace tranche::observe {

struct WebOptions {
  std::uint16_t port = 9480;  // of 127.0.0.1; 0: any free one
  AgentsAsked asked;
  Duration interval = std::chrono::seconds(10);
  bool json = false;  // once, on standard output, without a page
  config::Environment environment;
};

// The exit status: 0 after a signal, 1 when the cluster cannot be asked at the start, or the port is taken.
int run_web(const WebOptions& options);

}  // namespace tranche::observe
