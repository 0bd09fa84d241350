#pragma once
// The state of this node as the condition TrancheReady of its Node (docs/internals/kubernetes.md). Pure.
#include "kube/node_condition.h"
#include "node/snapshot.h"

namespace tranche::agent {

// True while slots can be allocated, even with a reason other than "Serving" that needs an operator's attention.
kube::NodeCondition node_condition(const NodeView& node);

}  // namespace tranche::agent
