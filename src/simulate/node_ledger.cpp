#include "simulate/node_ledger.h"

#include <fmt/format.h>

#include <functional>

#include "grants/allocate/prefer.h"

namespace tranche::simulate {

ResourceLedger::ResourceLedger(const plan::Plan& plan, const plan::PlannedResource& resource,
                               const gpu::Inventory& inventory, const config::Config& config)
    : resource_(resource),
      inventory_(inventory),
      policy_(config.flags.plugin.shared_devices_allocation_policy),
      around_empty_(grants::around(plan, resource)),
      around_(around_empty_),
      taken_on_(resource.devices.size()) {
  settings_.flags = config.flags;
  settings_.framework_environment = config.sharing.framework_environment;
  for (std::size_t d = 0; d < resource.devices.size(); ++d) {
    const auto& device = resource.devices[d];
    for (auto& id : plan::slot_ids(device)) {
      ids_.push_back(std::move(id));
      device_of_.push_back(d);
    }
  }
  for (std::size_t i = 0; i < ids_.size(); ++i) position_.emplace(ids_[i], i);
  taken_.assign(ids_.size(), 0);
  free_ = ids_.size();
}

// As kubelet's devicesToAllocate: reusable devices first (any of them: its sets have no order), then a preference for
// the whole request, in which those must be included.
Result<ResourceLedger::Served> ResourceLedger::serve_from(const std::vector<char>& taken, const grants::Around& around,
                                                          std::uint64_t count, const Slots& reusable) const {
  Served served;
  for (const std::size_t at : reusable)
    if (served.slots.size() < count) served.slots.insert(at);
  std::vector<std::string> ids;
  for (const std::size_t at : served.slots) ids.push_back(ids_[at]);
  if (ids.size() < count) {
    std::vector<std::string_view> available;
    for (std::size_t i = 0; i < ids_.size(); ++i)
      if (taken[i] == 0 || served.slots.contains(i)) available.push_back(ids_[i]);
    if (available.size() < count)
      return fail(Kind::kUnavailable,
                  fmt::format("{} of {} are asked for and {} are free", count, resource_.name, available.size()));
    const std::vector<std::string_view> required(ids.begin(), ids.end());
    TRY(ids,
        grants::prefer(resource_, inventory_, available, required, static_cast<std::uint32_t>(count), policy_, around));
  }
  for (const auto& id : ids) served.slots.insert(position_.at(id));
  auto with_held = around;
  for (auto& [uuid, room] : with_held.room) room.held = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i)
    if (taken[i] != 0 && !reusable.contains(i))
      if (const auto room = with_held.room.find(resource_.devices[device_of_[i]].uuid); room != with_held.room.end())
        room->second.held = room->second.held.value_or(0) + 1;
  TRY(served.grant, grants::allocate(resource_, {}, ids, settings_, with_held));
  return served;
}

Result<ResourceLedger::Served> ResourceLedger::serve(std::uint64_t count, const Slots& reusable) const {
  return serve_from(taken_, around_, count, reusable);
}

ResourceLedger::Slots ResourceLedger::positions(const std::set<std::string>& ids) const {
  Slots slots;
  for (const auto& id : ids)
    if (const auto found = position_.find(id); found != position_.end()) slots.insert(found->second);
  return slots;
}

void ResourceLedger::take(const Slots& slots, bool taken) {
  largest_.reset();
  for (const std::size_t at : slots) {
    if ((taken_[at] != 0) == taken) continue;
    taken_[at] = taken ? 1 : 0;
    taken_on_[device_of_[at]] += taken ? 1 : -1;
    free_ -= taken ? 1 : -1;
  }
}

void ResourceLedger::count_clients(const grants::Grant& grant, int more) {
  largest_.reset();
  for (const auto& device : grant.devices) around_.room[device.uuid].live += more;
}

// Only where slots lie decides whether a request is served: all that is free, all that is free on one device, or one.
std::uint64_t ResourceLedger::largest() const {
  if (largest_) return *largest_;
  std::set<std::uint64_t, std::greater<>> sizes{free_, 1};
  for (std::size_t d = 0; d < taken_on_.size(); ++d) sizes.insert(resource_.devices[d].slots - taken_on_[d]);
  for (const std::uint64_t size : sizes)
    if (size > 0 && size <= free_ && serve(size, {})) return *(largest_ = size);
  return *(largest_ = 0);
}

bool ResourceLedger::fits_empty(std::uint64_t count) const {
  return count > 0 && count <= ids_.size() &&
         serve_from(std::vector<char>(ids_.size(), 0), around_empty_, count, {}).has_value();
}

}  // namespace tranche::simulate
