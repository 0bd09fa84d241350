// Doors of a pool in tier v3, where each grant has a namespace of the daemon's server, with a socket and limits of its
// own.
#include "mps/endpoints/endpoints.h"
#include "os/log/log.h"

namespace tranche::agent {

void Doors::use_namespaces(const std::string& id, const std::string& server) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  found->second.server = server;
  set_kinds(found->second);
}

std::string Doors::socket_of(const std::string& id, const std::string& grant) const {
  const auto found = pools_.find(id);
  const std::string pipe = settings_.paths.pipe(id);
  if (found == pools_.end() || found->second.server.empty()) return pipe + "/control";
  return pipe + "/" + found->second.server + "/" + grant + "/control";
}

std::map<std::string, mps::GrantLimits> Doors::worth(const std::string& id, const mps::GrantLimits& own) {
  std::map<std::string, mps::GrantLimits> worth;
  const auto found = pools_.find(id);
  if (found == pools_.end()) return worth;
  for (auto& [grant, door] : found->second.doors) {
    if (!door.unreadable.empty()) continue;
    if (!door.limits && own.empty()) continue;  // a pool that only ends
    if (!door.limits) {
      if (const auto kept = write_door_limits(settings_.paths, {id, grant}, own); !kept)
        log::warning("door.limits_not_kept", {{"pool", id}, {"grant", grant}, {"why", kept.error()}});
      door.limits = own;
    }
    worth.emplace(grant, *door.limits);
  }
  return worth;
}

void Doors::take_back(const DoorName& name, bool was_there, const std::optional<mps::GrantLimits>& limits) {
  const auto pool = pools_.find(name.pool);
  if (pool == pools_.end()) return;
  const auto kept =
      limits ? write_door_limits(settings_.paths, name, *limits) : remove_door_limits(settings_.paths, name);
  if (!kept) log::warning("door.limits_not_kept", {{"pool", name.pool}, {"grant", name.grant}, {"why", kept.error()}});
  if (was_there) {
    pool->second.doors[name.grant].limits = limits;
  } else {
    pool->second.doors.erase(name.grant);
  }
  world_.on_change();
}

}  // namespace tranche::agent
