// Endpoints of a pool in tier v3: each grant has a namespace of the daemon's server, with a socket and limits of its
// own.
#include "mps/endpoints/endpoints.h"
#include "os/log/log.h"

namespace tranche::agent {

void Endpoints::use_namespaces(const std::string& id, const std::string& server) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  found->second.server = server;
  set_kinds(found->second);
}

std::string Endpoints::socket_of(const std::string& id, const std::string& grant) const {
  const auto found = pools_.find(id);
  const std::string pipe = settings_.paths.pipe(id);
  if (found == pools_.end() || found->second.server.empty()) return pipe + "/control";
  return pipe + "/" + found->second.server + "/" + grant + "/control";
}

std::map<std::string, mps::GrantLimits> Endpoints::limits_of_grants(const std::string& id,
                                                                    const mps::GrantLimits& own) {
  std::map<std::string, mps::GrantLimits> limits;
  const auto found = pools_.find(id);
  if (found == pools_.end()) return limits;
  for (auto& [grant, endpoint] : found->second.endpoints) {
    if (!endpoint.unreadable.empty()) continue;
    if (!endpoint.limits && own.empty()) continue;  // the pool is only being stopped
    if (!endpoint.limits) {
      if (const auto kept = write_endpoint_limits(settings_.paths, {id, grant}, own); !kept)
        log::warning("endpoint.limits_not_kept", {{"pool", id}, {"grant", grant}, {"why", kept.error()}});
      endpoint.limits = own;
    }
    limits.emplace(grant, *endpoint.limits);
  }
  return limits;
}

void Endpoints::take_back(const EndpointName& name, bool was_there, const std::optional<mps::GrantLimits>& limits) {
  const auto pool = pools_.find(name.pool);
  if (pool == pools_.end()) return;
  const auto kept =
      limits ? write_endpoint_limits(settings_.paths, name, *limits) : remove_endpoint_limits(settings_.paths, name);
  if (!kept)
    log::warning("endpoint.limits_not_kept", {{"pool", name.pool}, {"grant", name.grant}, {"why", kept.error()}});
  if (was_there) {
    pool->second.endpoints[name.grant].limits = limits;
  } else {
    pool->second.endpoints.erase(name.grant);
  }
  callbacks_.on_change();
}

}  // namespace tranche::agent
