#pragma once
// Requests to the API server for one-shot commands: each call blocks on a loop of its own, and every request has the
// client's deadline. Nothing is watched or cached.
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/access.h"
#include "kube/client/kube_client.h"

namespace tranche::host {

// Paths begin with "/api". A response with any status is a value; kUnavailable if there is none.
Result<KubeAnswer> get_once(const kube::Access& access, const std::string& path);
Result<KubeAnswer> patch_once(const kube::Access& access, const std::string& path, const std::string& merge_patch);
Result<KubeAnswer> strategic_patch_once(const kube::Access& access, const std::string& path, const std::string& patch);

// The pods of the cluster: one list for each field selector ("spec.nodeName=n1"), page by page: the raw bodies. If a
// later page has expired, the list is restarted once.
Result<std::vector<std::string>> list_pods(const kube::Access& access, const std::vector<std::string>& selectors);

}  // namespace tranche::host
