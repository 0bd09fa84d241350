#pragma once
// The pods of `tranche plan --pods`: from a file, standard input, or a live cluster.
#include <string>

#include "base/result.h"
#include "config/resolve.h"
#include "kube/client/find_access.h"
#include "simulate/pods.h"

namespace tranche::cli {

struct PodsFrom {
  std::string where;                  // a file, "-", "cluster"
  host::KubeconfigChoice kubeconfig;  // for "cluster"
  std::string node_name;              // for "cluster": include the pods of this node
};

// An Error: nothing could be read. Invalid entries are among the result's problems. Pods of a cluster are in the order
// in which the node would get them: bound pods first, then by age.
Result<simulate::PodsRead> load_pods(const PodsFrom& from, const config::Environment& environment);

}  // namespace tranche::cli
