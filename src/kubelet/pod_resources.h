#pragma once
// kubelet's PodResources API (v1): which pod and container holds which slots. One blocking question with a deadline;
// call it from a worker, not from the loop.
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "grants/allocate/grant.h"

namespace tranche::kubelet {

Result<std::vector<grants::Held>> list_pod_resources(const std::string& socket_path, Duration deadline);

// Asks a device plugin's socket for slots as kubelet would: the same call, the same answer. For trying the limits
// of a grant on a running node (`tranche verify --deep`). The caller must know that no pod holds the slots, since
// kubelet does not know of the request. Blocks up to a deadline; not for the loop.
// Only variables and mounts are read.
Result<grants::Grant> request_grant(const std::string& plugin_socket, const std::vector<std::string>& slots,
                                    Duration deadline);

}  // namespace tranche::kubelet
