#pragma once
// Lists pods of the cluster once, for one-shot commands; nothing is watched or cached. Blocks on a loop of its own;
// every request has the client's deadline.
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/access.h"

namespace tranche::host {

// One list for each field selector ("spec.nodeName=n1"), page by page: the raw bodies. If a later page has expired, the
// list is restarted once.
Result<std::vector<std::string>> list_pods(const kube::Access& access, const std::vector<std::string>& selectors);

}  // namespace tranche::host
