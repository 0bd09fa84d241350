#pragma once
// The HTTP pages of `tranche mps`: /metrics and /readyz (503 and one line while pools are not serving). put() runs on
// the loop's thread, the routes on the HTTP server's.
#include <mutex>
#include <string>
#include <vector>

#include "base/problem.h"
#include "mps/pool/pool_set.h"
#include "os/http/http.h"

namespace tranche::agent {

// Whether the pools of this node serve, in one line for a readiness probe and for people. A broken pool does not affect
// the others, so it is only named; the node is not ready if no pool serves, or while pools start for the first time.
// Pure.
struct PoolReadiness {
  std::string id;
  std::string state = "absent";  // as on the status socket; "serving" when CUDA programs are known to start
  bool begins = false;           // it has not served yet, and has not failed
  std::string reason;            // why it is not serving
};

struct MpsReadinessInputs {
  bool ends = false;           // it was asked to end
  std::string driver_problem;  // "" = the driver answers
  bool needs_driver = true;    // false: failOnInitError: false
  std::vector<Problem> plan_problems;
  std::vector<PoolReadiness> pools;  // the planned ones
};

struct MpsReadiness {
  bool ready = false;
  std::string reason;  // also when ready
};

MpsReadiness mps_readiness(const MpsReadinessInputs& inputs);

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
