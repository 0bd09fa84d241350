#pragma once
// How this process may talk to the API server: by a kubeconfig file, or as the pod that it is. Reads files; any thread.
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "kube/access.h"

namespace tranche::host {

// `kubeconfig` "" = the service account of this pod. `problems` gets what is to be said of the file, warnings too; the
// error is its first fault.
Result<kube::Access> find_access(const std::string& kubeconfig, const config::Environment& environment,
                                 std::vector<Problem>& problems);

}  // namespace tranche::host
