#pragma once
// Whether the pools of this node serve, in one line for a readiness probe and for people. A broken pool does not affect
// the others, so it is only named; the node is not ready if no pool serves, or while pools start for the first time.
// Pure.
#include <string>
#include <vector>

#include "base/problem.h"

namespace tranche::agent {

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

}  // namespace tranche::agent
