#pragma once
// One request to the API server, for one-shot commands: blocks on a loop of its own up to the client's deadline.
#include <string>

#include "base/result.h"
#include "kube/access.h"
#include "kube/client/kube_client.h"

namespace tranche::host {

// Paths begin with "/api". A response with any status is a value; kUnavailable if there is none.
Result<KubeAnswer> get_once(const kube::Access& access, const std::string& path);
Result<KubeAnswer> patch_once(const kube::Access& access, const std::string& path, const std::string& merge_patch);
Result<KubeAnswer> strategic_patch_once(const kube::Access& access, const std::string& path, const std::string& patch);

}  // namespace tranche::host
