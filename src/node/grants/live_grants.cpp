#include "node/grants/live_grants.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "plan/slot_id.h"

namespace tranche::agent {
namespace {

using Ids = std::set<std::string_view>;

bool share_a_slot(const std::vector<std::string>& slots, const Ids& ids) {
  return std::ranges::any_of(slots, [&](const std::string& slot) { return ids.contains(slot); });
}

}  // namespace

void LiveGrants::given(const allocate::Grant& grant, MonoTime now) {
  const Ids slots(grant.slots.begin(), grant.slots.end());
  std::erase_if(given_, [&](const auto& entry) { return share_a_slot(entry.second.slots, slots); });
  given_[grant.id] = {grant.slots, now};
}

std::map<std::string, LiveGrants::Live> LiveGrants::count(const std::vector<host::PodHolding>& holdings,
                                                          MonoTime listed, std::span<const std::string> asked_for) {
  const Ids ids(asked_for.begin(), asked_for.end());
  std::map<std::string, Live> live;
  const auto add = [&](const std::vector<std::string>& slots) {
    std::set<std::string_view> devices;
    for (const auto& slot : slots) {
      const auto device = plan::device_of(slot);
      Live& here = live[std::string(device)];
      ++here.slots;
      if (devices.insert(device).second) ++here.grants;
    }
  };
  for (const auto& holding : holdings) {
    const auto given = given_.find(allocate::grant_id(holding.slots));
    const bool older = given != given_.end() && listed <= given->second.at;
    if (given != given_.end() && !older) given_.erase(given);
    if (!older && !share_a_slot(holding.slots, ids)) add(holding.slots);
  }
  std::erase_if(given_, [&](const auto& entry) { return listed - entry.second.at > kListedAfter; });
  for (const auto& [id, given] : given_)
    if (!share_a_slot(given.slots, ids)) add(given.slots);
  return live;
}

void count_into(allocate::Around& around, const std::map<std::string, LiveGrants::Live>& live) {
  for (auto& [device, room] : around.room) {
    const auto it = live.find(device);
    const LiveGrants::Live here = it == live.end() ? LiveGrants::Live{} : it->second;
    room.live = here.grants;
    room.held = here.slots;
  }
}

}  // namespace tranche::agent
