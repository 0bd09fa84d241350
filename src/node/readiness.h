#pragma once
// Whether this node serves, and if not, why: one line for a probe, a person and the status document. A process that is
// alive and waits is not ready; a node without a driver counts as one that does not need one only with failOnInitError:
// false. Pure.
#include "kube/node_condition.h"
#include "node/snapshot.h"

namespace tranche::agent {

// The state of this node as the condition TrancheReady of its Node (docs/internals/kubernetes.md). Pure.
// True while slots can be allocated, even with a reason other than "Serving" that needs an operator's attention.
kube::NodeCondition node_condition(const NodeView& node);

// The same for a probe: while it is ready, with a message and without a reason.
kube::NodeCondition readiness(const NodeView& node);

}  // namespace tranche::agent
