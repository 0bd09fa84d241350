#include "allocate/prefer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "allocate/align.h"
#include "base/text.h"
#include "plan/slot_id.h"

namespace tranche::allocate {
namespace {

// One device of the resource with the slots of it that the call mentions, lowest ordinal first.
struct Candidate {
  const plan::PlannedDevice* device = nullptr;
  std::vector<std::pair<std::uint32_t, std::string>> free;  // available, not required
  std::vector<std::pair<std::uint32_t, std::string>> required;

  std::uint32_t taken() const { return device->slots - static_cast<std::uint32_t>(free.size()); }
};

struct Sorted {
  std::vector<Candidate> devices;  // in driver order
  std::vector<std::string> required;
  std::size_t free = 0;
};

Result<Sorted> sort_by_device(const plan::PlannedResource& resource, std::span<const std::string> available,
                              std::span<const std::string> must_include) {
  Sorted sorted;
  std::map<std::string_view, std::size_t> position;
  for (const auto& device : resource.devices) {
    position[device.uuid] = sorted.devices.size();
    sorted.devices.push_back({&device, {}, {}});
  }
  const auto place = [&](const std::string& id) -> std::pair<Candidate*, std::uint32_t> {
    const auto parsed = plan::parse_slot_id(id);
    if (!parsed) return {nullptr, 0};
    const auto it = position.find(parsed->uuid);
    if (it == position.end()) return {nullptr, 0};
    Candidate& candidate = sorted.devices[it->second];
    if (candidate.device->replicated != parsed->ordinal.has_value()) return {nullptr, 0};
    if (parsed->ordinal.value_or(0) >= candidate.device->slots) return {nullptr, 0};
    return {&candidate, parsed->ordinal.value_or(0)};
  };
  for (const auto& id : must_include) {
    const auto [candidate, ordinal] = place(id);
    if (candidate == nullptr)
      return fail(Kind::kNotFound, in_quotes(id) + " must be included, but " + resource.name + " has no such device");
    candidate->required.emplace_back(ordinal, id);
    sorted.required.push_back(id);
  }
  for (const auto& id : available) {
    const auto [candidate, ordinal] = place(id);
    if (candidate != nullptr) candidate->free.emplace_back(ordinal, id);  // what we do not know cannot be preferred
  }
  for (auto& candidate : sorted.devices) {
    const auto tidy = [](auto& slots) {
      std::ranges::sort(slots);
      slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    };
    tidy(candidate.required);
    tidy(candidate.free);
    std::erase_if(candidate.free,
                  [&](const auto& slot) { return std::ranges::binary_search(candidate.required, slot); });
    sorted.free += candidate.free.size();
  }
  std::ranges::sort(sorted.required);
  sorted.required.erase(std::unique(sorted.required.begin(), sorted.required.end()), sorted.required.end());
  return sorted;
}

std::string take_lowest(Candidate& candidate) {
  std::string id = std::move(candidate.free.front().second);
  candidate.free.erase(candidate.free.begin());
  return id;
}

// NVIDIA's rule, one slot at a time: the device with the fewest (distributed) or most (packed) slots taken; among
// equals the one picked least in this call, then driver order.
void take_by_policy(Sorted& sorted, std::size_t needed, config::AllocationPolicy policy,
                    std::vector<std::string>& out) {
  std::map<const Candidate*, int> picked;
  for (; needed > 0; --needed) {
    Candidate* best = nullptr;
    const auto better = [&](const Candidate& a, const Candidate& b) {
      if (a.taken() != b.taken())
        return policy == config::AllocationPolicy::kPacked ? a.taken() > b.taken() : a.taken() < b.taken();
      return picked[&a] < picked[&b];
    };
    for (auto& candidate : sorted.devices) {
      if (!candidate.free.empty() && (best == nullptr || better(candidate, *best))) best = &candidate;
    }
    ++picked[best];
    out.push_back(take_lowest(*best));
  }
}

// Shares under MPS: one client talks to one daemon, so slots of one container belong on one device. Where something is
// required already, stay there; else best fit, so that large requests find room later; else as few devices as possible.
void take_together(Sorted& sorted, std::size_t needed, std::vector<std::string>& out) {
  std::vector<Candidate*> order;
  for (auto& candidate : sorted.devices) order.push_back(&candidate);
  std::ranges::stable_sort(order, [&](const Candidate* a, const Candidate* b) {
    if (a->required.size() != b->required.size()) return a->required.size() > b->required.size();
    const bool a_fits = a->free.size() >= needed;
    const bool b_fits = b->free.size() >= needed;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? a->free.size() < b->free.size() : a->free.size() > b->free.size();
  });
  for (auto* candidate : order) {
    while (needed > 0 && !candidate->free.empty()) {
      out.push_back(take_lowest(*candidate));
      --needed;
    }
  }
}

bool whole_gpus(const plan::PlannedResource& resource) {
  return std::ranges::all_of(resource.devices, [](const auto& d) { return !d.is_mig && !d.replicated; });
}

std::vector<std::string> take_aligned(const Sorted& sorted, const inventory::Inventory& inventory, std::uint32_t size) {
  std::map<std::string_view, std::uint32_t> position;
  for (std::uint32_t i = 0; i < inventory.gpus.size(); ++i) position[inventory.gpus[i].uuid] = i;
  std::vector<std::uint32_t> available, required;
  std::vector<std::string> unplaced;  // GPUs that the inventory lost meanwhile: usable, but of no known place
  for (const auto& candidate : sorted.devices) {
    if (candidate.free.empty() && candidate.required.empty()) continue;
    const auto it = position.find(candidate.device->uuid);
    if (it == position.end()) {
      if (candidate.required.empty()) unplaced.push_back(candidate.device->uuid);
      continue;
    }
    available.push_back(it->second);
    if (!candidate.required.empty()) required.push_back(it->second);
  }
  std::vector<std::string> out = sorted.required;
  const auto reachable = static_cast<std::uint32_t>(std::min<std::size_t>(size, available.size()));
  if (reachable > 0 && required.size() <= reachable) {
    for (const auto gpu : align(inventory, available, required, reachable)) {
      if (std::ranges::find(out, inventory.gpus[gpu].uuid) == out.end()) out.push_back(inventory.gpus[gpu].uuid);
    }
  }
  for (const auto& uuid : unplaced) {
    if (out.size() < size) out.push_back(uuid);
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> prefer(const plan::PlannedResource& resource, const inventory::Inventory& inventory,
                                        std::span<const std::string> available,
                                        std::span<const std::string> must_include, std::uint32_t size,
                                        config::AllocationPolicy policy) {
  TRY(Sorted sorted, sort_by_device(resource, available, must_include));
  if (sorted.required.size() > size) {
    return fail(Kind::kInvalid, fmt::format("{} of {} must be included, but only {} are asked for",
                                            sorted.required.size(), resource.name, size));
  }
  const std::size_t needed = size - sorted.required.size();
  if (needed > sorted.free) {
    return fail(Kind::kInvalid, fmt::format("{} of {} are asked for, but only {} of the ids offered are known here",
                                            size, resource.name, sorted.free + sorted.required.size()));
  }
  std::vector<std::string> out;
  if (whole_gpus(resource)) {
    out = take_aligned(sorted, inventory, size);
  } else {
    out = sorted.required;
    if (resource.sharing == config::SharingStrategy::kMps && size > 1) {
      take_together(sorted, needed, out);
    } else {
      take_by_policy(sorted, needed, policy, out);
    }
  }
  return out;
}

}  // namespace tranche::allocate
