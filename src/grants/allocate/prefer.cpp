#include "grants/allocate/prefer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"

namespace tranche::grants {
namespace {

// One device of the resource with the slots of it that the call mentions. A call may name a thousand ids, so they stay
// where they are and are found by ordinal.
struct Candidate {
  const plan::PlannedDevice* device = nullptr;
  std::size_t parent = 0;                 // position of the first device of the same GPU
  std::vector<std::string_view> offered;  // by ordinal: available and not required; "" = not
  std::vector<std::string_view> required;
  std::uint32_t free = 0;
  std::uint32_t next = 0;  // nothing is offered below
  std::uint32_t picked = 0;
  bool crowded = false;  // its MPS server has its clients

  std::uint32_t taken() const { return device->slots - free; }
  std::string_view take_lowest() {
    while (offered[next].empty()) ++next;
    --free;
    ++picked;
    return offered[next++];
  }
};

struct Sorted {
  std::vector<Candidate> devices;  // in driver order
  std::vector<std::string> required;
  std::size_t free = 0;
};

std::vector<Candidate> candidates(const plan::PlannedResource& resource, const Around& around) {
  std::vector<Candidate> devices;
  devices.reserve(resource.devices.size());
  for (const auto& device : resource.devices) {
    const auto same_gpu = [&](const Candidate& c) { return c.device->gpu_uuid == device.gpu_uuid; };
    const auto parent = static_cast<std::size_t>(std::ranges::find_if(devices, same_gpu) - devices.begin());
    devices.push_back({&device, parent, std::vector<std::string_view>(device.slots), {}});
    const auto room = around.room.find(device.uuid);
    devices.back().crowded = room != around.room.end() && room->second.is_full();
  }
  return devices;
}

Result<Sorted> sort_by_device(const plan::PlannedResource& resource, std::span<const std::string_view> available,
                              std::span<const std::string_view> must_include, const Around& around) {
  Sorted sorted{candidates(resource, around), {}, 0};
  std::map<std::string_view, std::size_t> positions;  // by UUID
  for (std::size_t i = 0; i < resource.devices.size(); ++i) positions.emplace(resource.devices[i].uuid, i);
  const auto place = [&](std::string_view id) -> std::pair<Candidate*, std::uint32_t> {
    const auto slot = plan::parse_slot_id(id);
    const auto at = slot ? positions.find(slot->uuid) : positions.end();
    if (at == positions.end()) return {nullptr, 0};
    Candidate& candidate = sorted.devices[at->second];
    const bool known = candidate.device->replicated == slot->ordinal.has_value() &&
                       slot->ordinal.value_or(0) < candidate.device->slots;
    return {known ? &candidate : nullptr, slot->ordinal.value_or(0)};
  };
  for (const auto id : available) {
    if (const auto [candidate, ordinal] = place(id); candidate != nullptr) candidate->offered[ordinal] = id;
  }
  for (const auto id : must_include) {
    const auto [candidate, ordinal] = place(id);
    if (candidate == nullptr)
      return fail(Kind::kNotFound, in_quotes(id) + " must be included, but " + resource.name + " has no such device");
    candidate->offered[ordinal] = {};
    if (std::ranges::find(candidate->required, id) == candidate->required.end()) candidate->required.push_back(id);
  }
  for (auto& candidate : sorted.devices) {
    candidate.free =
        static_cast<std::uint32_t>(std::ranges::count_if(candidate.offered, [](const auto id) { return !id.empty(); }));
    sorted.free += candidate.free;
    sorted.required.insert(sorted.required.end(), candidate.required.begin(), candidate.required.end());
  }
  std::ranges::sort(sorted.required);
  return sorted;
}

// A slot at a time; the smallest rank wins. The parent counts what is taken of all its devices in this resource.
void take_by_policy(Sorted& sorted, std::size_t needed, config::AllocationPolicy policy,
                    std::vector<std::string>& out) {
  std::vector<std::int64_t> taken_of_parent(sorted.devices.size());
  for (const auto& candidate : sorted.devices) taken_of_parent[candidate.parent] += candidate.taken();
  const std::int64_t sign = policy == config::AllocationPolicy::kPacked ? -1 : 1;
  const auto rank = [&](const Candidate& c) {
    return std::tuple(c.crowded, sign * static_cast<std::int64_t>(c.taken()), c.picked,
                      sign * taken_of_parent[c.parent]);
  };
  for (; needed > 0; --needed) {
    Candidate* best = nullptr;
    for (auto& candidate : sorted.devices) {
      if (candidate.free > 0 && (best == nullptr || rank(candidate) < rank(*best))) best = &candidate;
    }
    ++taken_of_parent[best->parent];
    out.emplace_back(best->take_lowest());
  }
}

// Where something is required already, stay there; else best fit, so that large requests find room later.
void take_together(Sorted& sorted, std::size_t needed, std::vector<std::string>& out) {
  std::vector<Candidate*> order;
  for (auto& candidate : sorted.devices) order.push_back(&candidate);
  std::ranges::stable_sort(order, [&](const Candidate* a, const Candidate* b) {
    if (a->required.size() != b->required.size()) return a->required.size() > b->required.size();
    if (a->crowded != b->crowded) return b->crowded;
    const bool a_fits = a->free >= needed;
    const bool b_fits = b->free >= needed;
    if (a_fits != b_fits) return a_fits;
    return a_fits ? a->free < b->free : a->free > b->free;
  });
  for (auto* candidate : order) {
    for (; needed > 0 && candidate->free > 0; --needed) out.emplace_back(candidate->take_lowest());
  }
}

bool whole_gpus(const plan::PlannedResource& resource) {
  return std::ranges::all_of(resource.devices, [](const auto& d) { return !d.is_mig && !d.replicated; });
}

// GPUs that the inventory lost meanwhile are usable for what we know, but of no known place: they come last.
std::vector<std::string> take_aligned(const Sorted& sorted, const gpu::Inventory& inventory, std::uint32_t size) {
  std::vector<std::uint32_t> available, required;
  std::vector<std::string> unplaced;
  for (const auto& candidate : sorted.devices) {
    if (candidate.free == 0 && candidate.required.empty()) continue;
    const gpu::Gpu* gpu = gpu::find_gpu(inventory, candidate.device->uuid);
    if (gpu == nullptr) {
      if (candidate.required.empty()) unplaced.push_back(candidate.device->uuid);
      continue;
    }
    available.push_back(static_cast<std::uint32_t>(gpu - inventory.gpus.data()));
    if (!candidate.required.empty()) required.push_back(available.back());
  }
  std::vector<std::string> out = sorted.required;
  const std::size_t required_unplaced = sorted.required.size() - required.size();
  const auto placed = static_cast<std::uint32_t>(std::min<std::size_t>(size - required_unplaced, available.size()));
  if (placed > 0) {
    for (const auto gpu : align(inventory, available, required, placed)) {
      if (std::ranges::find(required, gpu) == required.end()) out.push_back(inventory.gpus[gpu].uuid);
    }
  }
  for (const auto& uuid : unplaced) {
    if (out.size() < size) out.push_back(uuid);
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> prefer(const plan::PlannedResource& resource, const gpu::Inventory& inventory,
                                        std::span<const std::string_view> available,
                                        std::span<const std::string_view> must_include, std::uint32_t size,
                                        config::AllocationPolicy policy, const Around& around) {
  TRY(Sorted sorted, sort_by_device(resource, available, must_include, around));
  if (sorted.required.size() > size) {
    return fail(Kind::kInvalid, fmt::format("{} of {} must be included, but only {} are asked for",
                                            sorted.required.size(), resource.name, size));
  }
  const std::size_t needed = size - sorted.required.size();
  if (needed > sorted.free) {
    return fail(Kind::kInvalid, fmt::format("{} of {} are asked for, but only {} of the ids offered are known here",
                                            size, resource.name, sorted.free + sorted.required.size()));
  }
  const bool has_places = inventory.platform == gpu::Platform::kNvml;
  if (has_places && whole_gpus(resource)) return take_aligned(sorted, inventory, size);
  std::vector<std::string> out = sorted.required;
  if (resource.sharing == config::SharingStrategy::kMps && size > 1) {
    take_together(sorted, needed, out);
  } else {
    take_by_policy(sorted, needed, has_places ? policy : config::AllocationPolicy::kDistributed, out);
  }
  return out;
}

}  // namespace tranche::grants
