#pragma once
// Whether this node does what it is there for, and if not, why: one line for a probe, a person and the status document.
// A process that is alive and waits is not ready; only with failOnInitError: false is a node without a driver taken
// for one that needs none. Pure.
#include <string>

#include "programs/node/snapshot.h"

namespace tranche::agent {

struct Readiness {
  bool ready = false;
  std::string reason;  // also when ready
};

Readiness readiness(const Snapshot& snapshot);

}  // namespace tranche::agent
