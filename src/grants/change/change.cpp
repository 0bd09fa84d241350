#include "grants/change/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/text.h"
#include "plan/shares.h"

namespace tranche::grants {
namespace {

using plan::Plan;
using plan::PlannedDevice;
using plan::PlannedResource;

std::string gpu_of(const std::string& device, const Plan& a, const Plan& b) {
  for (const Plan* plan : {&a, &b})
    if (const auto* found = find_device(*plan, device)) return found->gpu_uuid;
  return device;
}

// kubelet lists the devices of every vendor's plugin. Ours may be of a GPU that no plan has any more.
bool is_ours(const HeldShare& share, const Plan& before, const Plan& newest) {
  if (!share.pool.empty()) return true;
  if (share.resource.starts_with("nvidia.com/") &&
      (share.device.starts_with("GPU-") || share.device.starts_with("MIG-")))
    return true;
  return find_device(before, share.resource, share.device) != nullptr ||
         find_device(newest, share.resource, share.device) != nullptr;
}

class Settling {
 public:
  Settling(const Settled& before, const Plan& newest, const std::vector<HeldShare>& held)
      : before_(before.plan), newest_(newest) {
    for (const auto& share : held)
      if (is_ours(share, before_, newest)) held_.push_back(share);
    out_.plan = newest;
  }

  Settled run() {
    find_waiting_devices();
    if (!waiting_.empty()) leave_as_it_was();
    keep_what_is_held();
    keep_ids_apart();
    keep_within_the_device();
    std::ranges::stable_sort(out_.waiting, {}, &Step::what);
    return std::move(out_);
  }

 private:
  static std::string until_free(std::uint64_t slots) {
    return fmt::format("{} {} held", count_text(slots, "slot"), slots == 1 ? "is" : "are");
  }

  // --- means -------------------------------------------------------------------------------------------------------

  bool in_the_way(const HeldShare& share, const PlannedDevice& device) const {
    if (share.device == device.uuid) return mode_of(share) != mode_of(device);
    return device.gpu_uuid == share.device || gpu_of(share.device, before_, newest_) == device.uuid;  // whole, or MIG
  }

  void find_waiting_devices() {
    for (const auto& share : held_)
      for (const auto& resource : newest_.resources)
        for (const auto& device : resource.devices)
          if (in_the_way(share, device)) waiting_.insert(device.uuid);
    for (const auto& share : held_) {
      // Its daemon serves all devices of its pool as long as one of its clients lives.
      const auto mode = mode_of(share);
      const auto* pool = mode.pool.empty() ? nullptr : plan::find_pool(before_, mode.pool);
      if (pool == nullptr) continue;
      for (const auto& uuid : pool->devices) {
        const auto* device = find_device(newest_, uuid);
        if (device != nullptr && mode_of(*device) != mode) waiting_.insert(uuid);
      }
    }
    const auto waits = [this](const std::string& uuid) { return waiting_.contains(uuid); };
    for (const auto& pool : newest_.pools)  // one begins with all of its devices, and no other pool has them
      if (std::ranges::any_of(pool.devices, waits)) waiting_.insert(pool.devices.begin(), pool.devices.end());
  }

  void leave_as_it_was() {
    for (const auto& uuid : waiting_) waiting_gpus_.insert(gpu_of(uuid, newest_, before_));
    for (auto& resource : out_.plan.resources)
      std::erase_if(resource.devices, [this](const PlannedDevice& device) { return waiting_.contains(device.uuid); });
    std::erase_if(out_.plan.pools,
                  [this](const plan::PlannedPool& pool) { return waiting_.contains(pool.devices.front()); });
    for (const auto& resource : before_.resources) {
      for (const auto& device : resource.devices) {
        const auto* new_one = find_device(newest_, device.uuid);
        const bool changes = new_one == nullptr
                                 ? waiting_gpus_.contains(device.gpu_uuid)
                                 : waiting_.contains(device.uuid) && mode_of(*new_one) != mode_of(device);
        if (changes) put_back(resource, device);
      }
    }
    say_what_waits();
  }

  void put_back(const PlannedResource& resource, const PlannedDevice& device) {
    auto& resources = out_.plan.resources;
    auto at = std::ranges::lower_bound(resources, resource.name, {}, &PlannedResource::name);
    if (at == resources.end() || at->name != resource.name) {
      at = resources.insert(at, resource);
      at->devices.clear();
    } else if (at->devices.empty()) {
      *at = resource;  // none of it has changed yet
      at->devices.clear();
    }
    at->devices.push_back(device);
    std::ranges::stable_sort(at->devices, {}, plan::by_index);
    const std::string why = "the GPU changes to other means of sharing when nothing of it is held";
    for (const auto& id : plan::slot_ids(device)) withhold(resource.name, id, why);
    const auto* pool = plan::find_pool(before_, device.pool);
    if (pool == nullptr || plan::find_pool(out_.plan, pool->id) != nullptr) return;
    auto& pools = out_.plan.pools;
    pools.insert(std::ranges::lower_bound(pools, pool->id, {}, &plan::PlannedPool::id), *pool);
  }

  void say_what_waits() {
    for (const auto& resource : newest_.resources) {
      for (const auto& device : resource.devices) {
        if (!waiting_.contains(device.uuid)) continue;
        std::uint64_t slots = 0;
        std::optional<SharingMode> was;
        if (const auto* old = find_device(before_, device.uuid); old != nullptr && mode_of(*old) != mode_of(device))
          was = mode_of(*old);
        for (const auto& share : held_) {
          if (!in_the_way(share, device)) continue;
          slots += share.slots.size();
          was = mode_of(share);
        }
        wait(What::kSharingMode, {}, device.uuid,
             fmt::format("{}: {}", name_of({&device}), change_text(was, mode_of(device))),
             slots == 0 ? "the GPUs of its MPS pool change together" : until_free(slots));
      }
    }
  }

  // --- held slots --------------------------------------------------------------------------------------------------

  void keep_what_is_held() {
    std::map<std::string, std::map<std::string, std::uint64_t>> kept;  // by resource and device
    for (const auto& share : held_) {
      const auto* device = find_device(out_.plan, share.resource, share.device);
      for (const auto& slot : share.slots) {
        if (device != nullptr && is_slot_of(*device, slot)) continue;
        withhold(share.resource, slot, "it is held, and goes when it is free");
        if (!waiting_gpus_.contains(gpu_of(share.device, before_, newest_))) ++kept[share.resource][share.device];
      }
    }
    for (const auto& [name, devices] : kept) {
      const auto* resource = plan::find_resource(out_.plan, name);
      const bool vanishes = resource == nullptr || resource->devices.empty();
      std::uint64_t all = 0;
      for (const auto& [uuid, slots] : devices) {
        all += slots;
        if (vanishes) continue;
        const auto* device = find_device(newest_, uuid);
        wait(What::kShrinks, name, uuid,
             fmt::format("{} on {}: {} fewer", name, device == nullptr ? uuid : name_of({device}),
                         count_text(slots, "slot")),
             until_free(slots));
      }
      if (vanishes) wait(What::kVanishes, name, {}, fmt::format("{} vanishes", name), until_free(all));
    }
  }

  void keep_ids_apart() {
    for (const auto& share : held_) {
      for (const auto& resource : out_.plan.resources) {
        if (resource.name == share.resource) continue;
        const auto* device = find_device(resource, share.device);
        if (device == nullptr) continue;
        for (const auto& slot : share.slots)
          if (is_slot_of(*device, slot)) withhold(resource.name, slot, "it is held as " + share.resource);
      }
    }
  }

  // --- limits ------------------------------------------------------------------------------------------------------

  // In MiB. What was given under the rules of now counts as so many slots: how several are rounded in one is not ours
  // to judge here.
  static std::uint64_t cost_of(const HeldShare& share, const PlannedDevice& device) {
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(share.slots.size(), device.slots));
    const bool by_the_rules = share.memory == plan::share_of(device, std::max(count, 1U)).memory;
    if (share.memory.value == 0 || by_the_rules) return share.slots.size() * device.share.memory.in_mib();
    return share.memory.in_mib();
  }

  void keep_within_the_device() {
    for (const auto& resource : out_.plan.resources) {
      for (const auto& device : resource.devices) {
        if (device.pool.empty() || device.share.memory.in_mib() == 0) continue;
        std::uint64_t cost = 0;
        std::set<std::string> taken;
        for (const auto& share : held_) {
          if (share.device != device.uuid) continue;
          cost += cost_of(share, device);
          taken.insert(share.slots.begin(), share.slots.end());
        }
        const std::uint64_t one = device.share.memory.in_mib();
        const std::uint64_t all = std::max(plan::share_of(device, device.slots).memory.in_mib(), one * device.slots);
        if (cost > 0) withhold_beyond(resource, device, taken, all > cost ? (all - cost) / one : 0);
      }
    }
  }

  void withhold_beyond(const PlannedResource& resource, const PlannedDevice& device, const std::set<std::string>& taken,
                       std::uint64_t room) {
    std::uint64_t withheld = 0, free = 0;
    for (const auto& id : plan::slot_ids(device)) {
      if (taken.contains(id) || plan::reason_withheld(out_.withheld, resource.name, id) != nullptr) continue;
      if (++free <= room) continue;
      withhold(resource.name, id, "its share is held by slots of the previous plan");
      ++withheld;
    }
    if (withheld == 0) return;
    wait(What::kGrows, resource.name, device.uuid,
         fmt::format("{} on {}: {} more", resource.name, name_of({&device}), count_text(withheld, "slot")),
         "their shares are held by slots of the previous plan");
  }

  void wait(What what, const std::string& resource, const std::string& device, std::string text, std::string until) {
    out_.waiting.push_back({what, resource, {}, std::move(text), std::move(until)});
    if (!device.empty()) out_.waiting.back().devices = {device};
  }

  void withhold(const std::string& resource, const std::string& slot, const std::string& why) {
    out_.withheld[resource].emplace(slot, why);
  }

  const Plan& before_;
  const Plan& newest_;
  std::vector<HeldShare> held_;
  std::set<std::string> waiting_;       // devices of the newest plan
  std::set<std::string> waiting_gpus_;  // theirs
  Settled out_;
};

// --- steps ---------------------------------------------------------------------------------------------------------

// What waits takes the place of the planned step that it is all of. What a GPU changes in addition to its sharing comes
// with that.
std::vector<Step> merge(const std::vector<Step>& planned, const std::vector<Step>& waiting) {
  const auto waits = [&](What what, const std::string& resource, const std::string* device) {
    return std::ranges::any_of(waiting, [&](const Step& one) {
      return one.what == what && one.resource == resource &&
             (device == nullptr || std::ranges::find(one.devices, *device) != one.devices.end());
    });
  };
  const auto is_replaced = [&](const Step& step) {
    if (step.devices.empty()) return waits(step.what, step.resource, nullptr);
    return std::ranges::all_of(step.devices, [&](const std::string& device) {
      return waits(step.what, step.resource, &device) || waits(What::kSharingMode, {}, &device);
    });
  };
  std::vector<Step> all;
  std::ranges::remove_copy_if(planned, std::back_inserter(all), is_replaced);
  std::ranges::copy(waiting, std::back_inserter(all));
  std::ranges::stable_sort(all, {}, &Step::what);
  return all;
}

}  // namespace

Settled settle(const Settled& before, const Plan& newest, const std::vector<HeldShare>& held) {
  return Settling(before, newest, held).run();
}

void Change::aim(plan::Plan newest) {
  if (newest_ == newest) return;
  planned_ = newest_ ? grants::steps(now_.plan, newest) : std::vector<Step>{};
  newest_ = std::move(newest);
  unsettled_ = true;
}

bool Change::follow(const std::vector<HeldShare>& held, const std::string& unknown) {
  if (!newest_) return false;
  Settled next = now_;
  std::vector<Step> steps = planned_;
  if (unknown.empty() || now_.plan.resources.empty()) {
    next = settle(now_, *newest_, held);
    unsettled_ = false;
  } else if (unsettled_) {
    for (auto& step : steps) step.waits_for = "it is not known which slots are held: " + unknown;
  }
  steps = merge(steps, next.waiting);
  const bool changed = next != now_ || steps != steps_;
  now_ = std::move(next);
  steps_ = std::move(steps);
  return changed;
}

}  // namespace tranche::grants
