// How many clients a pool's server still takes. The ceiling is the server's on each GPU (docs/guide/share-sizes.md), so
// where a pool joins several, each is counted by itself.
#include <algorithm>

#include "agent/mps/doors.h"

namespace tranche::agent {
namespace {

bool holds(const std::optional<mps::GrantLimits>& limits, const std::string& device) {
  return !limits || std::ranges::find(*limits, device, &mps::GrantLimit::uuid) != limits->end();
}

}  // namespace

void Doors::set_most_clients(const std::string& id, std::size_t most, std::vector<std::string> devices) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) return;
  found->second.most_clients = most;
  found->second.devices = std::move(devices);
}

std::size_t Doors::clients_on(const Pool& pool, const std::string& device) {
  if (pool.devices.size() <= 1) return pool.gate->clients();
  std::size_t clients = 0;
  for (const auto& [grant, door] : pool.doors)
    if (holds(door.limits, device)) clients += pool.gate->door(grant).clients.size();
  return clients;
}

std::string Doors::full_device(const Pool& pool, const std::string& grant) {
  if (pool.most_clients == 0 || pool.gate->clients() < pool.most_clients) return {};
  if (pool.devices.size() <= 1) return "the GPU";
  const auto door = pool.doors.find(grant);
  for (const auto& device : pool.devices) {
    const bool theirs = door == pool.doors.end() || holds(door->second.limits, device);
    if (theirs && clients_on(pool, device) >= pool.most_clients) return "GPU " + device;
  }
  return {};
}

std::optional<std::size_t> Doors::clients_on_fullest(const std::string& id) const {
  const auto found = pools_.find(id);
  if (found == pools_.end() || !found->second.gate) return std::nullopt;
  std::size_t most = 0;
  for (const auto& device : found->second.devices) most = std::max(most, clients_on(found->second, device));
  return most;
}

}  // namespace tranche::agent
