#pragma once
// Has `tranche mps` remove the endpoints whose pods are gone, after each answer of kubelet: grants/ledger.h decides
// which. Loop thread only.
#include <string>

#include "grants/ledger.h"
#include "mps/protocol/mps_link.h"
#include "mps/protocol/pools.h"
#include "os/loop/loop.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

class EndpointCollecting {
 public:
  EndpointCollecting(host::Loop& loop, grants::Ledger& ledger, const std::string& mps_socket)
      : loop_(loop), ledger_(ledger), link_(loop, mps_socket) {}

  // Endpoints of pools that are not planned any more keep these from ending: those whose grants are free beyond doubt
  // go at once, others that nobody holds when a second answer of kubelet's has confirmed it. True: there are such, and
  // another answer is wanted.
  bool retire(const PoolReports& pools, const Snapshot& snapshot);
  // Endpoints of claims are not its concern: kubelet says when those go.
  void look(const PoolReports& pools, const Snapshot& snapshot);
  // As reported by the API server: it goes with kubelet's next answer that does not list it.
  void pod_ended(const std::string& pool, const std::string& grant);

 private:
  void remove(const grants::Endpoint& endpoint);

  host::Loop& loop_;
  grants::Ledger& ledger_;
  MpsLink link_;
};

}  // namespace tranche::agent
