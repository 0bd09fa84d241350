#include "agent/mps/drains.h"

namespace tranche::agent {

bool Drains::begin(const DoorName& door, const std::set<std::string>& containers, Waiter waiter, MonoTime now) {
  for (const auto& container : containers) {
    if (!container.empty()) closed_[door].insert(container);
  }
  const auto [running, begun] = running_.try_emplace(door, Running{{}, now});
  running->second.waiters.push_back(waiter);
  return begun;
}

Drains::Ended Drains::end(const DoorName& door) {
  const auto found = running_.find(door);
  if (found == running_.end()) return {};
  Ended ended{std::move(found->second.waiters), found->second.since};
  running_.erase(found);
  return ended;
}

bool Drains::is_closed(const DoorName& door, const std::string& container) const {
  const auto found = closed_.find(door);
  return found != closed_.end() && found->second.contains(container);
}

std::set<std::string> Drains::closed(const DoorName& door) const {
  const auto found = closed_.find(door);
  return found == closed_.end() ? std::set<std::string>{} : found->second;
}

void Drains::container_ended(const DoorName& door, const std::string& container) {
  const auto found = closed_.find(door);
  if (found == closed_.end()) return;
  found->second.erase(container);
  if (found->second.empty()) closed_.erase(found);
}

void Drains::forget(const DoorName& door) {
  closed_.erase(door);
}

}  // namespace tranche::agent
