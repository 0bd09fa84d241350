#pragma once
// Pods of the cluster, asked once and whole, for moment commands: nothing is watched and nothing is kept. Blocks on a
// loop of its own; every request has the client's deadline.
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/access.h"

namespace tranche::host {

// One list for each field selector ("spec.nodeName=n1"), page by page: the bodies as they came. A list whose later
// pages have expired meanwhile is asked again from its beginning, once.
Result<std::vector<std::string>> list_pods(const kube::Access& access, const std::vector<std::string>& selectors);

}  // namespace tranche::host
