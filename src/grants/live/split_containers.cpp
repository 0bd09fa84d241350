#include "grants/live/split_containers.h"

#include <fmt/format.h>

#include <map>

#include "base/text.h"

namespace tranche::agent {

std::vector<SplitContainer> SplitContainers::look(std::span<const HeldDoor> doors) {
  std::map<std::string, std::set<std::string>> pools_of;
  std::map<std::string, const HeldDoor*> door_of;
  for (const auto& door : doors) {
    if (!door.claim.empty()) continue;  // containers with requests of one name may be others
    const std::string name = door.pod_namespace + "/" + door.pod + "/" + door.container;
    pools_of[name].insert(door.pool);
    door_of.emplace(name, &door);
  }
  std::erase_if(told_, [&](const std::string& name) { return !pools_of.contains(name); });
  std::vector<SplitContainer> split;
  for (const auto& [name, pools] : pools_of) {
    if (pools.size() < 2 || !told_.insert(name).second) continue;
    const HeldDoor& door = *door_of.at(name);
    SplitContainer one{door, {pools.begin(), pools.end()}, {}};
    one.words = fmt::format(
        "container {} holds slots of {} MPS pools ({}), and a CUDA process can use one of them only: ask for slots of "
        "one GPU, or have the operator join the GPUs (split: span)",
        door.container, pools.size(), join(one.pools, ", "));
    split.push_back(std::move(one));
  }
  return split;
}

}  // namespace tranche::agent
