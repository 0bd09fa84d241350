#include "node/grants/split_containers.h"

#include <fmt/format.h>

#include <map>

#include "base/text.h"

namespace tranche::agent {

std::vector<SplitContainer> SplitContainers::look(std::span<const HeldEndpoint> endpoints) {
  std::map<std::string, std::set<std::string>> pools_of;
  std::map<std::string, const HeldEndpoint*> endpoint_of;
  for (const auto& endpoint : endpoints) {
    if (!endpoint.claim.empty()) continue;  // containers with requests of one name may be others
    const std::string name = endpoint.pod_namespace + "/" + endpoint.pod + "/" + endpoint.container;
    pools_of[name].insert(endpoint.pool);
    endpoint_of.emplace(name, &endpoint);
  }
  std::erase_if(reported_, [&](const std::string& name) { return !pools_of.contains(name); });
  std::vector<SplitContainer> split;
  for (const auto& [name, pools] : pools_of) {
    if (pools.size() < 2 || !reported_.insert(name).second) continue;
    const HeldEndpoint& endpoint = *endpoint_of.at(name);
    SplitContainer one{endpoint, {pools.begin(), pools.end()}, {}};
    one.message = fmt::format(
        "container {} holds slots of {} MPS pools ({}), and a CUDA process can use one of them only: ask for slots of "
        "one GPU, or have the operator join the GPUs (split: span)",
        endpoint.container, pools.size(), join(one.pools, ", "));
    split.push_back(std::move(one));
  }
  return split;
}

}  // namespace tranche::agent
