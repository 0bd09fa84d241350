#pragma once
// The HTTP pages of `tranche mps`: /metrics and /readyz (503 and one line while pools are not serving). put() runs on
// the loop's thread, the routes on the HTTP server's.
#include <mutex>
#include <string>

#include "mps/pool/pool_set.h"
#include "os/http/http.h"
#include "programs/mps/mps_readiness.h"

namespace tranche::agent {

class MpsPages {
 public:
  host::HttpServer::Routes routes();  // they use this object, which must outlive them
  void put(std::string metrics, MpsReadiness readiness);

 private:
  host::HttpAnswer metrics() const;
  host::HttpAnswer ready() const;

  mutable std::mutex mutex_;
  std::string metrics_;
  MpsReadiness readiness_{.ready = false, .reason = "it begins"};
};

// The state of the planned pools.
std::vector<PoolReadiness> pool_readiness(const PoolSet& pools);

}  // namespace tranche::agent
