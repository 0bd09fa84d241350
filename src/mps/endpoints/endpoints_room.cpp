// How many more clients a pool's server accepts. The limit is the server's on each GPU (docs/guide/share-sizes.md), so
// a pool of several GPUs counts each GPU separately.
#include <fmt/format.h>

#include <algorithm>

#include "mps/endpoints/endpoints.h"

namespace tranche::agent {
namespace {

bool holds(const std::optional<mps::GrantLimits>& limits, const std::string& device) {
  return !limits || std::ranges::find(*limits, device, &mps::GrantLimit::uuid) != limits->end();
}

}  // namespace

void Endpoints::set_most_clients(const std::string& id, std::size_t most, std::vector<std::string> devices,
                                 std::size_t promised) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  found->second.most_clients = most;
  found->second.devices = std::move(devices);
  found->second.promised = promised;
}

std::size_t Endpoints::clients_on(const Pool& pool, const std::string& device) {
  if (pool.devices.size() <= 1) return pool.relay->clients();
  std::size_t clients = 0;
  for (const auto& [grant, endpoint] : pool.endpoints)
    if (holds(endpoint.limits, device)) clients += pool.relay->endpoint(grant).clients.size();
  return clients;
}

// Places reserved for the other grants that hold this device: their promised places without the clients they have.
std::size_t Endpoints::kept_on(const Pool& pool, const std::string& device, const std::string& grant) {
  std::size_t kept = 0;
  for (const auto& [other, endpoint] : pool.endpoints) {
    if (other == grant || !endpoint.admitting) continue;
    if (pool.devices.size() > 1 && !holds(endpoint.limits, device)) continue;
    const std::size_t has = pool.relay->endpoint(other).clients.size();
    kept += pool.promised - std::min(has, pool.promised);
  }
  return kept;
}

// If the endpoints were promised more places than the server has, each still gets its promise as long as there is any
// place.
std::string Endpoints::no_room(const Pool& pool, const std::string& grant) {
  if (pool.most_clients == 0) return {};
  const auto endpoint = pool.endpoints.find(grant);
  const bool within_promise = pool.relay->endpoint(grant).clients.size() < pool.promised;
  const bool one = pool.devices.size() <= 1;
  for (const auto& device : pool.devices) {
    if (!one && endpoint != pool.endpoints.end() && !holds(endpoint->second.limits, device)) continue;
    const std::string name = one ? "the GPU" : "GPU " + device;
    const std::size_t has = clients_on(pool, device);
    if (has >= pool.most_clients) return fmt::format("{} has its {} clients", name, pool.most_clients);
    if (within_promise) continue;
    if (const std::size_t kept = kept_on(pool, device, grant); has + kept >= pool.most_clients)
      return fmt::format("{} has {} of its {} clients, and the other places are kept for other containers", name, has,
                         pool.most_clients);
  }
  return {};
}

std::optional<std::size_t> Endpoints::clients_on_fullest(const std::string& id) const {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.relay) return std::nullopt;
  std::size_t most = 0;
  for (const auto& device : found->second.devices) most = std::max(most, clients_on(found->second, device));
  return most;
}

}  // namespace tranche::agent
