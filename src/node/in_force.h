#pragma once
// Which promises this node enforces at this moment, and by which mechanism, so that users need not infer it from
// settings (docs/guide/security.md has the same rows with the reasons). Snapshot → rows; empty on a node without MPS
// pools. Pure.
#include <string>
#include <vector>

#include "node/snapshot.h"

namespace tranche::agent {

struct InForce {
  std::string promise;  // "memory of a container"
  std::string state;    // "yes", "partly", "no"
  std::string by;       // the mechanism
  std::string why;      // why not, or what is missing; "" for "yes"
  friend bool operator==(const InForce&, const InForce&) = default;
};

std::vector<InForce> in_force(const Snapshot& snapshot);

}  // namespace tranche::agent
