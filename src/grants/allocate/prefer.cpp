#include "grants/allocate/prefer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"

namespace tranche::grants {
namespace {

// One device of the resource with the slots of it that the call mentions.
struct Candidate {
  const plan::PlannedDevice* device = nullptr;
  std::size_t parent = 0;                                  // position of the first device of the same GPU
  bool crowded = false;                                    // its MPS server has its clients
  std::map<std::uint32_t, std::string_view> offered = {};  // by ordinal: available and not required
  std::set<std::string_view> required = {};
  std::int64_t picked = 0;

  std::int64_t free() const { return static_cast<std::int64_t>(offered.size()); }
  std::int64_t taken() const { return device->slots - free(); }
  std::string take_lowest() {
    ++picked;
    return std::string(offered.extract(offered.begin()).mapped());
  }
};
using Candidates = std::vector<Candidate>;  // in driver order

Result<Candidates> candidates(const plan::PlannedResource& resource, std::span<const std::string_view> available,
                              std::span<const std::string_view> must_include, const Around& around) {
  Candidates devices;
  std::map<std::string_view, std::size_t> positions;  // by UUID
  for (const auto& device : resource.devices) {
    const auto same_gpu = [&](const Candidate& c) { return c.device->gpu_uuid == device.gpu_uuid; };
    const auto parent = static_cast<std::size_t>(std::ranges::find_if(devices, same_gpu) - devices.begin());
    const auto room = around.room.find(device.uuid);
    positions.emplace(device.uuid, devices.size());
    devices.push_back({&device, parent, room != around.room.end() && room->second.is_full()});
  }
  const auto find = [&](std::string_view id) -> Candidate* {
    const auto at = positions.find(plan::device_of(id));
    return at != positions.end() && is_slot_of(*devices[at->second].device, id) ? &devices[at->second] : nullptr;
  };
  const auto ordinal_of = [](std::string_view id) { return plan::parse_slot_id(id)->ordinal.value_or(0); };
  for (const auto id : available)
    if (auto* candidate = find(id)) candidate->offered.emplace(ordinal_of(id), id);
  for (const auto id : must_include) {
    auto* candidate = find(id);
    if (candidate == nullptr)
      return fail(Kind::kNotFound, in_quotes(id) + " must be included, but " + resource.name + " has no such device");
    candidate->offered.erase(ordinal_of(id));
    candidate->required.insert(id);
  }
  return devices;
}

// A slot at a time; the smallest rank wins. The parent counts what is taken of all its devices in this resource.
void take_by_policy(Candidates& devices, std::size_t needed, config::AllocationPolicy policy,
                    std::vector<std::string>& out) {
  std::vector<std::int64_t> taken_of_parent(devices.size());
  for (const auto& candidate : devices) taken_of_parent[candidate.parent] += candidate.taken();
  const std::int64_t sign = policy == config::AllocationPolicy::kPacked ? -1 : 1;
  const auto rank = [&](const Candidate& c) {
    return std::tuple(c.free() == 0, c.crowded, sign * c.taken(), c.picked, sign * taken_of_parent[c.parent]);
  };
  for (; needed > 0; --needed) {
    auto& best = *std::ranges::min_element(devices, {}, rank);
    ++taken_of_parent[best.parent];
    out.push_back(best.take_lowest());
  }
}

// Where something is required already, stay there; else best fit, so that large requests find room later.
void take_together(Candidates& devices, std::size_t needed, std::vector<std::string>& out) {
  std::ranges::stable_sort(devices, {}, [size = static_cast<std::int64_t>(needed)](const Candidate& c) {
    const bool fits = c.free() >= size;
    return std::tuple(-static_cast<std::int64_t>(c.required.size()), c.crowded, !fits, fits ? c.free() : -c.free());
  });
  for (auto& candidate : devices)
    for (; needed > 0 && candidate.free() > 0; --needed) out.push_back(candidate.take_lowest());
}

bool whole_gpus(const plan::PlannedResource& resource) {
  return std::ranges::all_of(resource.devices, [](const auto& d) { return !d.is_mig && !d.replicated; });
}

// A GPU that the inventory lost meanwhile has no link to any other.
std::vector<std::string> take_aligned(const Candidates& devices, const gpu::Inventory& inventory, std::uint32_t size) {
  std::vector<std::uint32_t> available, required;
  std::map<std::uint32_t, std::string> uuids;  // by position
  for (const auto& candidate : devices) {
    if (candidate.free() == 0 && candidate.required.empty()) continue;
    const gpu::Gpu* gpu = gpu::find_gpu(inventory, candidate.device->uuid);
    const auto lost = inventory.gpus.size() + uuids.size();
    const auto position =
        static_cast<std::uint32_t>(gpu == nullptr ? lost : static_cast<std::size_t>(gpu - inventory.gpus.data()));
    uuids[position] = candidate.device->uuid;
    available.push_back(position);
    if (!candidate.required.empty()) required.push_back(position);
  }
  std::vector<std::string> out;
  for (const auto position : align(inventory, available, required, size)) out.push_back(uuids[position]);
  return out;
}

}  // namespace

Result<std::vector<std::string>> prefer(const plan::PlannedResource& resource, const gpu::Inventory& inventory,
                                        std::span<const std::string_view> available,
                                        std::span<const std::string_view> must_include, std::uint32_t size,
                                        config::AllocationPolicy policy, const Around& around) {
  TRY(auto devices, candidates(resource, available, must_include, around));
  std::vector<std::string> out;
  std::size_t free = 0;
  for (const auto& candidate : devices) {
    out.insert(out.end(), candidate.required.begin(), candidate.required.end());
    free += candidate.offered.size();
  }
  std::ranges::sort(out);
  if (out.size() > size)
    return fail(Kind::kInvalid,
                fmt::format("{} of {} must be included, but only {} are asked for", out.size(), resource.name, size));
  const std::size_t needed = size - out.size();
  if (needed > free)
    return fail(Kind::kInvalid, fmt::format("{} of {} are asked for, but only {} of the ids offered are known here",
                                            size, resource.name, free + out.size()));
  const bool has_places = inventory.platform == gpu::Platform::kNvml;
  if (has_places && whole_gpus(resource)) return take_aligned(devices, inventory, size);
  if (resource.sharing == config::SharingStrategy::kMps && size > 1) {
    take_together(devices, needed, out);
  } else {
    take_by_policy(devices, needed, has_places ? policy : config::AllocationPolicy::kDistributed, out);
  }
  return out;
}

}  // namespace tranche::grants
