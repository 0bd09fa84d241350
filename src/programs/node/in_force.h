#pragma once
// What this node enforces of what it promises, at this moment, and by what means: so that nobody has to infer it from
// settings (docs/guide/security.md has the same rows and why). Snapshot → rows; none on a node without MPS pools. Pure.
#include <string>
#include <vector>

#include "programs/node/snapshot.h"

namespace tranche::agent {

struct InForce {
  std::string promise;  // "memory of a container"
  std::string state;    // "yes", "partly", "no"
  std::string by;       // what keeps it
  std::string why;      // why not, or what is missing; "" for "yes"
  friend bool operator==(const InForce&, const InForce&) = default;
};

std::vector<InForce> in_force(const Snapshot& snapshot);

}  // namespace tranche::agent
