// How many more contexts of clients a pool's server accepts. The limit is the server's on each GPU
// (docs/guide/share-sizes.md), so a pool of several GPUs counts each GPU separately. It is not known which of its GPUs
// a context of a grant is on. Beyond its promise a grant gets a context only if that fits with all contexts of each
// grant on one GPU; within it, as if each grant spread them evenly.
#include <fmt/format.h>

#include <algorithm>

#include "mps/endpoints/containers.h"
#include "mps/endpoints/endpoints.h"

namespace tranche::agent {
namespace {

// Of the places, at most this part is kept for containers that may still come: with more slots than that, a share of
// the places would be used by no program for as long as there are few containers.
constexpr std::size_t kKeptForLaterPart = 4;

bool holds(const std::optional<mps::GrantLimits>& limits, const std::string& device) {
  return !limits || std::ranges::find(*limits, device, &mps::GrantLimit::uuid) != limits->end();
}

}  // namespace

void Endpoints::set_most_clients(const std::string& id, std::size_t most, std::vector<std::string> devices,
                                 std::size_t promised, std::size_t slots) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  found->second.most_clients = most;
  found->second.devices = std::move(devices);
  found->second.promised = promised;
  found->second.slots = slots;
}

// Clients of no known grant that the servers list, as of their last list: each has a place. Not those of the node, as a
// start of our own that proves the server.
std::size_t Endpoints::unknown_clients(const Pool& pool) {
  return static_cast<std::size_t>(std::ranges::count_if(pool.seen, [&pool](const auto& each) {
    const host::ProcessRef& process = each.second.process;
    return pool.relay->grant_of(each.first) == nullptr && host::process_ref(each.first) == process &&
           !is_of_the_node(each.first);
  }));
}

std::size_t Endpoints::taken_by(const Pool& pool, const std::string& grant, const Endpoint& endpoint) {
  const std::size_t places = pool.relay->endpoint(grant).places;
  const auto devices = static_cast<std::size_t>(std::ranges::count_if(
      pool.devices, [&endpoint](const std::string& device) { return holds(endpoint.limits, device); }));
  return devices <= 1 ? places : (places + devices - 1) / devices;
}

std::size_t Endpoints::taken_on(const Pool& pool, const std::string& device, bool evenly) {
  std::size_t taken = unknown_clients(pool) + pool.gone_twice;
  if (pool.devices.size() <= 1) return taken + pool.relay->places();
  taken += pool.relay->endpoint("").places;  // of former tenants
  for (const auto& [grant, endpoint] : pool.endpoints)
    if (holds(endpoint.limits, device))
      taken += evenly ? taken_by(pool, grant, endpoint) : pool.relay->endpoint(grant).places;
  return taken;
}

// Places reserved for the other grants that hold this device: their promised places without those that they have.
std::size_t Endpoints::kept_on(const Pool& pool, const std::string& device, const std::string& grant) {
  std::size_t kept = 0, open = 0;
  for (const auto& [other, endpoint] : pool.endpoints) {
    if (pool.devices.size() > 1 && !holds(endpoint.limits, device)) continue;
    ++open;
    if (other == grant || !endpoint.admitting) continue;
    kept += pool.promised - std::min(taken_by(pool, other, endpoint), pool.promised);
  }
  const std::size_t may_come = (pool.slots - std::min(open, pool.slots)) * pool.promised;
  return kept + std::min(may_come, pool.most_clients / kKeptForLaterPart);
}

// If the endpoints were promised more places than the server has, each still gets its promise as long as there is any
// place.
std::string Endpoints::no_capacity(const Pool& pool, const std::string& grant) {
  if (pool.most_clients == 0) return {};
  const auto endpoint = pool.endpoints.find(grant);
  const bool within_promise =
      endpoint == pool.endpoints.end() || taken_by(pool, grant, endpoint->second) < pool.promised;
  const bool one = pool.devices.size() <= 1;
  for (const auto& device : pool.devices) {
    if (!one && endpoint != pool.endpoints.end() && !holds(endpoint->second.limits, device)) continue;
    const std::string name = one ? "the GPU" : "GPU " + device;
    const std::size_t has = taken_on(pool, device, within_promise);
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
  for (const auto& device : found->second.devices) most = std::max(most, taken_on(found->second, device, true));
  return most;
}

}  // namespace tranche::agent
