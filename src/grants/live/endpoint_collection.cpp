#include "grants/live/endpoint_collection.h"

#include <algorithm>

namespace tranche::agent {

void DoorCollection::handed_out(const std::string& pool, const std::string& grant) {
  seen_[{pool, grant}] = {};
}

void DoorCollection::pod_ended(const std::string& pool, const std::string& grant, MonoTime now) {
  seen_[{pool, grant}].ended = now;
}

std::vector<DoorCollection::Door> DoorCollection::look(const std::vector<Door>& doors,
                                                       const std::set<std::string>& held, MonoTime now) {
  std::erase_if(seen_, [&](const auto& entry) {
    return std::ranges::none_of(
               doors,
               [&](const Door& door) { return door.pool == entry.first.first && door.grant == entry.first.second; }) &&
           (entry.second.listed || entry.second.missing || entry.second.ended);
  });
  std::vector<Door> gone;
  for (const auto& door : doors) {
    Seen& seen = seen_[{door.pool, door.grant}];
    if (held.contains(door.grant)) {
      seen.listed = true;
      seen.missing.reset();
      continue;
    }
    if (seen.ended && now - *seen.ended <= kEndedFor) {
      gone.push_back(door);
      continue;
    }
    if (door.has_clients && (!seen.listed || held.empty())) {
      seen.missing.reset();
      continue;
    }
    const auto patience = seen.listed && !held.empty() ? kBetweenLooks : kNeverListed;
    if (!seen.missing) {
      seen.missing = now;
    } else if (now - *seen.missing >= patience) {
      gone.push_back(door);
    }
  }
  return gone;
}

}  // namespace tranche::agent
