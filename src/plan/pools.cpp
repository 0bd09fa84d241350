#include "plan/pools.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

constexpr std::size_t kDigits = 8;

std::string hex_digits_of(std::string_view uuid) {
  if (uuid.starts_with("GPU-")) uuid.remove_prefix(4);
  std::string digits;
  for (char c : uuid) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) digits += c;
  }
  return digits.size() >= kDigits ? digits : hex16(stable_hash(uuid));
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

PlannedPool make_pool(const config::Config& config, const PlannedResource& resource, const PlannedDevice& device,
                      inventory::ComputeCapability capability) {
  // When a container may hold several slots, the daemon cannot be told one slot's worth: its limit is a ceiling over
  // all clients of the device, and the grant's own limit travels in the client's environment.
  const std::uint32_t held = resource.one_slot_per_request ? 1 : device.slots;
  PlannedPool pool;
  pool.devices = {device.uuid};
  pool.limits = {{device.uuid, share_of(device.memory, device.sm_count, capability, held, device.slots,
                                        config.sharing.sm_rounding)}};
  pool.max_clients = max_clients(capability);
  pool.compute_mode = config.sharing.compute_mode;
  return pool;
}

}  // namespace

std::vector<std::string> pool_ids(const std::vector<std::string>& uuids) {
  std::vector<std::string> digits;
  for (const std::string& uuid : uuids) digits.push_back(hex_digits_of(uuid));
  std::vector<std::size_t> order(uuids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::string_view(digits[i]); });
  std::vector<std::size_t> length(uuids.size(), kDigits);
  for (std::size_t k = 1; k < order.size(); ++k) {
    const std::size_t needed = common_prefix(digits[order[k - 1]], digits[order[k]]) + 1;
    for (const std::size_t i : {order[k - 1], order[k]}) length[i] = std::max(length[i], needed);
  }
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < uuids.size(); ++i) ids.push_back("gpu-" + digits[i].substr(0, length[i]));
  return ids;
}

std::uint32_t max_clients(inventory::ComputeCapability capability) {
  return capability >= inventory::ComputeCapability{7, 5} ? 48 : 16;
}

std::vector<PlannedPool> make_pools(const config::Config& config, const inventory::Inventory& inventory,
                                    std::vector<PlannedResource>& resources) {
  std::vector<PlannedDevice*> served;
  std::vector<PlannedPool> pools;
  std::vector<std::string> uuids;
  for (PlannedResource& resource : resources) {
    if (resource.sharing != config::SharingStrategy::kMps) continue;
    for (PlannedDevice& device : resource.devices) {
      const inventory::Gpu* gpu = find_gpu(inventory, device.gpu_uuid);
      pools.push_back(
          make_pool(config, resource, device, gpu ? gpu->compute_capability : inventory::ComputeCapability{}));
      served.push_back(&device);
      uuids.push_back(device.uuid);
    }
  }
  const auto ids = pool_ids(uuids);
  for (std::size_t i = 0; i < pools.size(); ++i) pools[i].id = served[i]->pool = ids[i];
  std::ranges::sort(pools, {}, &PlannedPool::id);
  return pools;
}

}  // namespace tranche::plan
