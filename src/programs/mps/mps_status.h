#pragma once
// The report of `tranche mps` about itself: the one-line JSON of its status socket (docs/internals/mps-contract.md,
// "Status socket"), its metrics, and its HTTP pages /metrics and /readyz (503 and one line while pools are not
// serving).
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/time.h"
#include "config/live/config_source.h"
#include "mps/pool/pool_set.h"
#include "observe/metrics/page.h"
#include "observe/pages/http_pages.h"

namespace tranche::programs {

struct MpsView {
  const config::ConfigView& config;
  const std::vector<Problem>& plan_problems;
  std::string driver_problem;  // "" = the driver answers
  const mps::PoolSet& pools;
  MonoTime now{};
  int pid = 0;
  std::string pages_problem = {};  // why the HTTP pages are not served; "" = they are, or none are requested
  observe::LoopReport loop = {};
};

// Pure.
nlohmann::ordered_json mps_document(const MpsView& view);
metrics::Page mps_metrics(const MpsView& view);

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

// Of the HTTP server.
struct MpsPages {
  LongText metrics;
  MpsReadiness readiness{.ready = false, .reason = "it begins"};
};

// The state of the planned pools.
std::vector<PoolReadiness> pool_readiness(const mps::PoolSet& pools);

}  // namespace tranche::programs
