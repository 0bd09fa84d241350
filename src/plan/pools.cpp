#include "plan/plan_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/text.h"
#include "config/keys.h"
#include "plan/shares.h"

namespace tranche::plan {
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
