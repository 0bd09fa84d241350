#include "grants/live/endpoint_collection.h"

#include <algorithm>

namespace tranche::agent {

void EndpointCollection::handed_out(const std::string& pool, const std::string& grant) {
  seen_[{pool, grant}] = {};
}

void EndpointCollection::pod_ended(const std::string& pool, const std::string& grant, MonoTime now) {
  seen_[{pool, grant}].ended = now;
}

std::vector<EndpointCollection::Endpoint> EndpointCollection::look(const std::vector<Endpoint>& endpoints,
                                                                   const std::set<std::string>& held, MonoTime now) {
  std::erase_if(seen_, [&](const auto& entry) {
    return std::ranges::none_of(endpoints,
                                [&](const Endpoint& endpoint) {
                                  return endpoint.pool == entry.first.first && endpoint.grant == entry.first.second;
                                }) &&
           (entry.second.listed || entry.second.missing || entry.second.ended);
  });
  std::vector<Endpoint> gone;
  for (const auto& endpoint : endpoints) {
    Seen& seen = seen_[{endpoint.pool, endpoint.grant}];
    if (held.contains(endpoint.grant)) {
      seen.listed = true;
      seen.missing.reset();
      continue;
    }
    if (seen.ended && now - *seen.ended <= kEndedFor) {
      gone.push_back(endpoint);
      continue;
    }
    if (endpoint.has_clients && (!seen.listed || held.empty())) {
      seen.missing.reset();
      continue;
    }
    const auto patience = seen.listed && !held.empty() ? kBetweenLooks : kNeverListed;
    if (!seen.missing) {
      seen.missing = now;
    } else if (now - *seen.missing >= patience) {
      gone.push_back(endpoint);
    }
  }
  return gone;
}

}  // namespace tranche::agent
