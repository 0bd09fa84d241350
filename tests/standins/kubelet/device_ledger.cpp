#include "standins/kubelet/device_ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace tranche::sim {

void DeviceLedger::expect(const std::string& resource) {
  devices_[resource].clear();
}

void DeviceLedger::set_devices(const std::string& resource, const std::vector<Device>& devices) {
  auto& known = devices_[resource];
  known.clear();
  for (const Device& device : devices) known.insert_or_assign(device.id, device);
}

void DeviceLedger::lose(const std::string& resource) {
  for (auto& [id, device] : devices_[resource]) device.healthy = false;
}

bool DeviceLedger::knows(const std::string& resource) const {
  return devices_.contains(resource) ||
         std::ranges::any_of(holdings_, [&](const Holding& holding) { return holding.resource == resource; });
}

std::vector<Device> DeviceLedger::devices(const std::string& resource) const {
  std::vector<Device> result;
  const auto found = devices_.find(resource);
  if (found == devices_.end()) return result;
  for (const auto& [id, device] : found->second) result.push_back(device);
  return result;
}

std::set<std::string> DeviceLedger::resources() const {
  std::set<std::string> result;
  for (const auto& [resource, devices] : devices_) result.insert(resource);
  return result;
}

const Holding* DeviceLedger::find(const std::string& pod_uid, const std::string& container,
                                  const std::string& resource) const {
  const auto found = std::ranges::find_if(holdings_, [&](const Holding& holding) {
    return holding.pod_uid == pod_uid && holding.container == container && holding.resource == resource;
  });
  return found == holdings_.end() ? nullptr : &*found;
}

std::vector<const Holding*> DeviceLedger::of(const std::string& pod_uid, const std::string& container) const {
  std::vector<const Holding*> result;
  for (const Holding& holding : holdings_) {
    if (holding.pod_uid == pod_uid && holding.container == container) result.push_back(&holding);
  }
  std::ranges::sort(result, {}, [](const Holding* holding) { return holding->resource; });
  return result;
}

std::set<std::string> DeviceLedger::allocated(const std::string& resource) const {
  std::set<std::string> result;
  for (const Holding& holding : holdings_) {
    if (holding.resource == resource) result.insert(holding.ids.begin(), holding.ids.end());
  }
  return result;
}

void DeviceLedger::record(Holding holding) {
  std::ranges::sort(holding.ids);
  holdings_.push_back(std::move(holding));
}

void DeviceLedger::remove_pod(const std::string& pod_uid) {
  std::erase_if(holdings_, [&](const Holding& holding) { return holding.pod_uid == pod_uid; });
}

Result<std::optional<std::set<std::string>>> DeviceLedger::available_for(const std::string& pod_uid,
                                                                         const std::string& container,
                                                                         const std::string& resource,
                                                                         std::uint64_t required, bool running) const {
  const Holding* held = find(pod_uid, container, resource);
  if (held && held->ids.size() != required) {
    return fail(Kind::kConflict, fmt::format("container {} of pod {} changed its request for {} from {} to {}",
                                             container, pod_uid, resource, held->ids.size(), required));
  }
  if (running) return std::nullopt;  // kubelet restarted while the container kept running: nothing to do

  const auto known = devices_.find(resource);
  if (known == devices_.end()) {
    return fail(Kind::kUnavailable, fmt::format("cannot allocate unregistered device {}", resource));
  }
  std::set<std::string> healthy;
  for (const auto& [id, device] : known->second) {
    if (device.healthy) healthy.insert(id);
  }
  if (healthy.empty()) {
    return fail(Kind::kUnavailable, fmt::format("no healthy devices present; cannot allocate {}", resource));
  }
  if (held) {
    if (!std::ranges::includes(healthy, held->ids)) {
      return fail(Kind::kUnavailable, fmt::format("devices of {} allocated earlier are no longer healthy", resource));
    }
    return std::nullopt;
  }
  for (const std::string& id : allocated(resource)) healthy.erase(id);
  if (healthy.size() < required) {
    return fail(Kind::kUnavailable,
                fmt::format("requested number of devices unavailable for {}. Requested: {}, Available: {}", resource,
                            required, healthy.size()));
  }
  return healthy;
}

std::vector<std::string> choose(const std::vector<std::string>& available, const std::vector<std::string>& preferred,
                                std::uint64_t needed) {
  const std::set<std::string> wanted(preferred.begin(), preferred.end());
  std::vector<std::string> result;
  for (const bool want : {true, false}) {
    for (const std::string& id : available) {
      if (result.size() == needed) return result;
      if (wanted.contains(id) == want) result.push_back(id);
    }
  }
  return result;
}

}  // namespace tranche::sim
