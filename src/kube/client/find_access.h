#pragma once
// How this process connects to the API server: with a kubeconfig file, or as its own pod. Reads files; any thread.
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "kube/access.h"

namespace tranche::host {

// `kubeconfig` "" = the service account of this pod. `problems` receives all findings about the file, including
// warnings; the error is the first of them.
Result<kube::Access> find_access(const std::string& kubeconfig, const config::Environment& environment,
                                 std::vector<Problem>& problems);

}  // namespace tranche::host
