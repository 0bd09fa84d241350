#pragma once
// Has `tranche mps` remove the endpoints whose pods are gone, after each answer of kubelet: grants/ledger.h decides
// which. Loop thread only.
#include <string>

#include "grants/ledger.h"
#include "mps/protocol/mps_client.h"
#include "mps/protocol/pool_reports.h"
#include "node/snapshot.h"
#include "os/loop/loop.h"

namespace tranche::agent {

class EndpointCollecting {
 public:
  EndpointCollecting(host::Loop& loop, grants::Ledger& ledger, MpsClient& mps)
      : loop_(loop), ledger_(ledger), mps_(mps) {}

  // An endpoint of a pool that is no longer planned keeps the pool from ending. It is removed at once if the ledger
  // knows that its slots are free, otherwise after a second answer of kubelet without its grant. True: some wait for
  // that answer.
  bool retire(const PoolReports& pools, const NodeView& node);
  // Leaves endpoints of claims alone: kubelet's NodeUnprepareResources ends those.
  void look(const PoolReports& pools, const NodeView& node);
  // As reported by the API server: the endpoint is removed after kubelet's next answer without it.
  void pod_ended(const std::string& pool, const std::string& grant);

 private:
  void remove(const grants::Endpoint& endpoint);

  host::Loop& loop_;
  grants::Ledger& ledger_;
  MpsClient& mps_;
};

}  // namespace tranche::agent
