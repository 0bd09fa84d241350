#pragma once
// How this node is, as the condition TrancheReady of its Node says it (docs/internals/kubernetes.md). Pure.
#include "kube/node_condition.h"
#include "programs/node/snapshot.h"

namespace tranche::agent {

// True while slots can be had, also with a reason other than "Serving" that somebody should look at.
kube::NodeCondition node_condition(const Snapshot& snapshot);

}  // namespace tranche::agent
