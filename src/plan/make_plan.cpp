#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/problem.h"
#include "base/text.h"
#include "config/keys.h"
#include "plan/plan_steps.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using config::Config;
using config::SharedResource;
using config::SharingStrategy;

// Two resources of one name would count each other's slots; of two without devices, one is enough.
void merge_names(const Config& config, Drafts& drafts, std::vector<Problem>& problems) {
  std::ranges::stable_sort(drafts, {}, [](const Draft& draft) { return std::string_view(draft.resource.name); });
  for (std::size_t i = 1; i < drafts.size();) {
    Draft& first = drafts[i - 1];
    Draft& second = drafts[i];
    if (first.resource.name != second.resource.name) {
      ++i;
      continue;
    }
    if (!first.resource.devices.empty() && !second.resource.devices.empty()) {
      const bool is_second = second.entry != nullptr;
      const Draft &said = is_second ? second : first, &other = is_second ? first : second;
      const bool pattern = said.entry != nullptr && !said.entry->names.empty();
      const SharedResource& entry = said.entry != nullptr ? *said.entry : config.sharing.resources.front();
      problems.push_back(entry_problem(
          config, entry, pattern ? "names" : "rename",
          other.entry == nullptr
              ? fmt::format("shared and whole devices would both be named {}", said.resource.name)
              : fmt::format("gives {}, as the entry in line {} does", said.resource.name, other.entry->place.line),
          pattern ? "write another pattern" : "write rename: with a name of its own"));
      ++i;
      continue;
    }
    drafts.erase(drafts.begin() + static_cast<std::ptrdiff_t>(first.resource.devices.empty() ? i - 1 : i));
  }
}

// MPS is a service of the discrete GPUs' driver. Checked before dividing, because Tegra has no GPU to query.
void check_platform_with_mps(const Config& config, const gpu::Inventory& inventory, std::vector<Problem>& problems) {
  if (config.sharing.strategy != SharingStrategy::kMps || inventory.platform == gpu::Platform::kNvml) return;
  const Place place = config.sharing.resources.empty() ? Place{} : config.sharing.resources.front().place;
  problems.push_back({Severity::kError, place, "sharing.mps",
                      fmt::format("asks for MPS, which there is none of on this node (its platform is {})",
                                  to_string(inventory.platform)),
                      "share with sharing.timeSlicing on this node"});
}

void note_entries_without_devices(const Config& config, const BaseResources& base, Plan& plan) {
  if (config.sharing.strategy == SharingStrategy::kNone) return;
  for (const SharedResource& entry : config.sharing.resources)
    if (!base.by_name.contains(entry.name))
      plan.notes.push_back(fmt::format("{}: the node has no {}, so there is nothing to share under that name",
                                       to_string(entry.place), entry.name));
}

// Every GPU that MPS can serve, without a resource name: the scheduler sees them in ResourceSlices, kubelet not at all.
// MIG devices are for claims of one each, without MPS: into `undivided`.
PlannedResource for_claims(const Config& config, const gpu::Inventory& inventory, BaseResources& base,
                           std::vector<PlannedDevice>& undivided) {
  PlannedResource resource;
  resource.sharing = SharingStrategy::kMps;
  resource.split = config.dra.split;
  if (inventory.platform != gpu::Platform::kNvml) {
    base.left_out.push_back({config.dra.devices == config::DraDevices::kAll ? "every GPU" : "each GPU of dra.devices",
                             fmt::format("dra.devices gives it to claims, and MPS, by which claims get parts of a GPU, "
                                         "is not on this node's platform ({})",
                                         to_string(inventory.platform))});
    return resource;
  }
  for (auto& [name, candidates] : base.by_name) {
    for (Candidate& candidate : candidates) {
      if (candidate.device.is_mig) {
        undivided.push_back(std::move(candidate.device));
        continue;
      }
      candidate.device.policy.reserve = reserve_of(config.sharing.reserve, false);
      candidate.device.policy.rounding = config.sharing.sm_rounding;
      candidate.device.share = share_of(candidate.device, 1);
      resource.devices.push_back(std::move(candidate.device));
    }
  }
  return resource;
}

// The GPUs of claims, or those of the device plugin.
gpu::Inventory part_of(const Config& config, const gpu::Inventory& inventory, bool for_claims) {
  gpu::Inventory part = inventory;
  std::erase_if(part.gpus, [&](const auto& gpu) { return is_for_claims(config.dra, gpu) != for_claims; });
  part.links.clear();  // by place in the list of GPUs
  if (!for_claims || config.dra.devices == config::DraDevices::kAll) return part;
  part.unreadable.clear();  // the other part has them
  part.set_aside.clear();
  return part;
}

void note_listed_without_gpu(const Config& config, const gpu::Inventory& inventory, std::vector<LeftOut>& out) {
  for (const auto& ref : config.dra.listed)
    if (std::ranges::none_of(inventory.gpus, [&](const auto& gpu) { return names_gpu(ref.text, gpu); }))
      out.push_back({"dra.devices " + in_quotes(ref.text), "it names no GPU that the node uses"});
}

}  // namespace

std::expected<Plan, std::vector<Problem>> make_plan(const config::Config& config, const gpu::Inventory& inventory) {
  const bool claims = config.dra.devices != config::DraDevices::kNone;
  const auto of_claims = part_of(config, inventory, true);
  const auto of_plugin = part_of(config, inventory, false);
  BaseResources base;
  if (config.dra.devices != config::DraDevices::kAll) base = base_resources(config, of_plugin);
  check_platform_with_mps(config, inventory, base.problems);
  Plan plan;
  Drafts drafts;
  std::vector<PlannedDevice> undivided;
  if (base.problems.empty() && config.dra.devices != config::DraDevices::kAll) {
    note_entries_without_devices(config, base, plan);
    for (auto& [name, candidates] : base.by_name)
      plan_resource(config, inventory, name, candidates, base, drafts, plan.notes);
    merge_names(config, drafts, base.problems);
  }
  plan.warnings = bounded(std::move(base.problems));
  if (has_error(plan.warnings)) return std::unexpected(std::move(plan.warnings));
  for (const Problem& warning : plan.warnings) plan.notes.push_back(to_string(warning));
  if (claims) {
    // Claims name MIG devices by attributes: whatever the node has is offered, and none needs a resource name.
    Config mixed = config;
    mixed.flags.mig_strategy = config::MigStrategy::kMixed;
    auto offered = base_resources(mixed, of_claims);
    drafts.push_back({for_claims(config, inventory, offered, undivided), nullptr});
    std::ranges::move(offered.left_out, std::back_inserter(base.left_out));
    note_listed_without_gpu(config, inventory, base.left_out);
  }
  plan.pools = make_pools(config, inventory, drafts);
  if (claims) {
    plan.for_claims = std::move(drafts.back().resource.devices);
    drafts.pop_back();
  }
  std::ranges::move(undivided, std::back_inserter(plan.for_claims));
  for (Draft& draft : drafts) plan.resources.push_back(std::move(draft.resource));
  plan.left_out = std::move(base.left_out);
  add_notes(config, inventory, plan);
  bound_notes(plan.notes);
  return plan;
}

// --- pools -----------------------------------------------------------------------------------------------------------

namespace {

constexpr gpu::ComputeCapability kVolta{7, 0};
constexpr int kCuda131 = 13010;
constexpr std::uint32_t kSlicesOfMost = 7;  // of every GPU with MIG except the A30, which has 4

constexpr std::size_t kDigits = 8;

constexpr std::string_view kMig = "MIG-";

std::string hex_digits_of(std::string_view uuid) {
  if (uuid.starts_with("GPU-") || uuid.starts_with(kMig)) uuid.remove_prefix(4);
  std::string digits;
  for (const char c : uuid)
    if (const char low = to_lower(c); (low >= '0' && low <= '9') || (low >= 'a' && low <= 'f')) digits += low;
  return digits.size() >= kDigits ? digits : hex16(stable_hash(uuid));
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// A device that MPS serves, and its resource.
struct Served {
  PlannedDevice* device = nullptr;
  const PlannedResource* resource = nullptr;
};

// What joins devices: the entry, or a name pattern that several entries have. "" = none.
std::string joint_of(const Draft& draft, const PlannedDevice& device) {
  // A process sees only one MIG device, so there is nothing to span.
  const bool for_claims = draft.entry == nullptr && draft.resource.split == config::SplitPolicy::kSpan;
  if (for_claims && !device.is_mig) return "claims";
  if (draft.entry == nullptr || draft.entry->split != config::SplitPolicy::kSpan || device.is_mig) return {};
  if (!draft.entry->names.empty()) return draft.entry->name + "=" + draft.entry->names;
  return fmt::format("{}#{}:{}", draft.entry->name, draft.entry->place.line, draft.entry->place.column);
}

// Of these devices, without its id.
PlannedPool make_pool(const config::Config& config, const gpu::Inventory& inventory, std::vector<Served>& members) {
  std::ranges::sort(members, {}, [](const Served& served) { return by_index(*served.device); });
  PlannedPool pool;
  pool.max_clients = std::numeric_limits<std::uint32_t>::max();
  for (const auto& [device, resource] : members) {
    // If a container may hold several slots, the daemon's setting cannot be one slot's limit: it is the maximum of all
    // clients of the device, and the grant's own limit is in the client's environment.
    const std::uint32_t held = resource->one_slot_per_request ? 1 : device->slots;
    pool.devices.push_back(device->uuid);
    pool.limits.push_back({device->uuid, share_of(*device, held)});
    if (const gpu::Gpu* gpu = find_gpu(inventory, device->gpu_uuid); gpu != nullptr)
      pool.max_clients = std::min(pool.max_clients, client_capacity_of(config, inventory, *gpu, *device));
  }
  pool.is_mig = members.front().device->is_mig;
  // A compute mode belongs to a whole GPU and cannot be set while MIG is on.
  pool.compute_mode = pool.is_mig ? config::ComputeModePolicy::kLeave : config.sharing.compute_mode;
  return pool;
}

}  // namespace

std::uint32_t driver_client_capacity(gpu::ComputeCapability capability, int cuda_driver_version) {
  if (capability < kVolta) return 16;
  return cuda_driver_version >= kCuda131 ? config::kMostClientsOfDrivers : 48;
}

std::uint32_t mig_client_capacity(std::uint32_t whole, std::uint32_t slices, std::uint32_t all_slices) {
  if (all_slices == 0) all_slices = kSlicesOfMost;
  return std::max<std::uint32_t>(1, whole * std::min(slices, all_slices) / all_slices);
}

std::uint32_t known_client_capacity(const gpu::Inventory& inventory, const gpu::Gpu& gpu, const PlannedDevice& device) {
  const std::uint32_t whole = driver_client_capacity(gpu.compute_capability, inventory.cuda_driver_version);
  const auto mig = std::ranges::find(gpu.mig_devices, device.uuid, &gpu::MigDevice::uuid);
  if (!device.is_mig || mig == gpu.mig_devices.end()) return whole;
  return mig_client_capacity(whole, mig->ci_slices, gpu.max_mig_devices);
}

std::uint32_t client_capacity_of(const config::Config& config, const gpu::Inventory& inventory, const gpu::Gpu& gpu,
                                 const PlannedDevice& device) {
  const std::uint32_t given = config.sharing.max_clients;
  return given != 0 ? given : known_client_capacity(inventory, gpu, device);
}

std::vector<std::string> pool_ids(const std::vector<std::string>& uuids) {
  std::vector<std::string> digits;
  for (const std::string& uuid : uuids) digits.push_back(hex_digits_of(uuid));
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    std::size_t length = kDigits;
    for (std::size_t k = 0; k < uuids.size(); ++k)
      if (k != i) length = std::max(length, common_prefix(digits[i], digits[k]) + 1);
    ids.push_back((uuids[i].starts_with(kMig) ? "mig-" : "gpu-") + digits[i].substr(0, length));
  }
  return ids;
}

std::string set_id(std::vector<std::string> uuids) {
  std::ranges::sort(uuids);
  return "set-" + hex16(stable_hash(join(uuids, ","))).substr(0, kDigits);
}

std::vector<PlannedPool> make_pools(const config::Config& config, const gpu::Inventory& inventory, Drafts& drafts) {
  std::map<std::string, std::vector<Served>> joints;
  for (Draft& draft : drafts) {
    if (draft.resource.sharing != config::SharingStrategy::kMps) continue;
    for (PlannedDevice& device : draft.resource.devices) {
      const std::string joint = joint_of(draft, device);
      joints[joint.empty() ? device.uuid : joint].push_back({&device, &draft.resource});
    }
  }
  std::vector<std::string> alone;
  for (const auto& [joint, members] : joints)
    if (members.size() == 1) alone.push_back(members.front().device->uuid);
  const auto ids = pool_ids(alone);
  std::vector<PlannedPool> pools;
  for (auto next = ids.begin(); auto& [joint, members] : joints) {
    PlannedPool& pool = pools.emplace_back(make_pool(config, inventory, members));
    pool.id = members.size() == 1 ? *next++ : set_id(pool.devices);
    for (const Served& served : members) served.device->pool = pool.id;
  }
  std::ranges::sort(pools, {}, &PlannedPool::id);
  return pools;
}

}  // namespace tranche::plan
