#pragma once
// kubelet's PodResources API (v1): which pod and container holds which slots. One blocking question with a deadline;
// call it from a worker, not from the loop.
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tranche::host {

struct PodHolding {
  std::string pod_namespace;
  std::string pod;
  std::string container;
  std::string resource;
  std::vector<std::string> slots;
};

Result<std::vector<PodHolding>> list_pod_resources(const std::string& socket_path, Duration deadline);

}  // namespace tranche::host
