#pragma once
// Has `tranche mps` take endpoints away whose pods have gone (endpoint_collection.h decides), after each answer of
// kubelet's. Loop thread only.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "grants/allocate/grant.h"
#include "grants/live/endpoint_collection.h"
#include "kubelet/pod_resources.h"
#include "mps/protocol/mps_link.h"
#include "mps/protocol/pools.h"
#include "os/loop/loop.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

class EndpointCollecting {
 public:
  EndpointCollecting(host::Loop& loop, const std::string& mps_socket) : loop_(loop), link_(loop, mps_socket) {}

  void handed_out(const std::vector<allocate::Grant>& grants);
  // Endpoints of pools that are not planned any more keep these from ending: those whose grants are free beyond doubt
  // go at once, others that nobody holds when a second answer of kubelet's has confirmed it. True: there are such, and
  // another answer is wanted.
  bool retire(const PoolReports& pools, const Snapshot& snapshot);
  // Endpoints of claims are not its concern: kubelet says when those go.
  void look(const PoolReports& pools, const Snapshot& snapshot);
  // As reported by the API server: it goes with kubelet's next answer that does not list it.
  void pod_ended(const std::string& pool, const std::string& grant);

 private:
  using Endpoint = std::pair<std::string, std::string>;  // pool, grant
  void remove(const std::string& pool, const std::string& grant, std::uint64_t made);

  std::map<Endpoint, MonoTime> unheld_;  // of pools that are to end: by which answer of kubelet's first
  std::set<Endpoint> removing_;
  host::Loop& loop_;
  MpsLink link_;
  EndpointCollection collection_;
};

}  // namespace tranche::agent
