#pragma once
// The pods of `tranche plan --pods`: of a file, of the standard input, or of a live cluster.
#include <string>

#include "base/result.h"
#include "config/resolve.h"
#include "simulate/pods.h"

namespace tranche::cli {

struct PodsFrom {
  std::string where;       // a file, "-", "cluster"
  std::string kubeconfig;  // for "cluster"; "" = $KUBECONFIG, or the service account of this pod
  std::string node_name;   // for "cluster": with the pods of this node
};

// An Error: nothing could be read at all. What is wrong with what was read is among its problems. Pods of a cluster
// come as they would have come to the node: those that are bound first, then by age.
Result<simulate::PodsRead> load_pods(const PodsFrom& from, const config::Environment& environment);

}  // namespace tranche::cli
