#pragma once
// Whether the pools of this node serve, in one line for a readiness probe and for people. One pool that is broken
// leaves the others' work as it is, so it is named and no more; a node where none serves, or where they are still being
// started for the first time, is not ready. Pure.
#include <string>
#include <vector>

#include "base/problem.h"

namespace tranche::agent {

struct PoolReadiness {
  std::string id;
  std::string state = "absent";  // in the status socket's word; "serving" when CUDA programs are known to start
  bool begins = false;           // it has not served yet, and nothing has failed
  std::string reason;            // why it does not serve
};

struct MpsReadinessFacts {
  bool ends = false;           // it was told to
  std::string driver_problem;  // "" = the driver answers
  bool needs_driver = true;    // false: failOnInitError: false
  std::vector<Problem> plan_problems;
  std::vector<PoolReadiness> pools;  // those that are wanted
};

struct MpsReadiness {
  bool ready = false;
  std::string reason;  // also when ready
};

MpsReadiness mps_readiness(const MpsReadinessFacts& facts);

}  // namespace tranche::agent
