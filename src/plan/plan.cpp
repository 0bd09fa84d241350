#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/find_in.h"
#include "base/text.h"
#include "plan/shares.h"

namespace tranche::plan {
namespace {

using gpu::Platform;
using Json = nlohmann::ordered_json;

Platform made_for(const PlannedDevice& device) {
  if (device.uuid == gpu::kWslDevice) return Platform::kWsl;
  return device.uuid == gpu::kTegraDevice ? Platform::kTegra : Platform::kNvml;
}

std::string why_stale(const PlannedDevice& device, const gpu::Inventory& inventory, config::MigStrategy strategy) {
  if (made_for(device) != inventory.platform)
    return "the node's platform is " + std::string(to_string(inventory.platform)) + " now";
  if (inventory.platform != Platform::kNvml) return {};
  const gpu::Gpu* gpu = gpu::find_gpu(inventory, device.gpu_uuid);
  if (gpu == nullptr) return "its GPU is not on this node any more";
  if (device.is_mig)
    return std::ranges::find(gpu->mig_devices, device.uuid, &gpu::MigDevice::uuid) != gpu->mig_devices.end()
               ? ""
               : "this MIG device does not exist any more";
  if (gpu->mig_enabled && strategy != config::MigStrategy::kNone) return "MIG was turned on for this GPU";
  return {};
}

constexpr std::string_view kSeparator = "::";

}  // namespace

const PlannedResource* find_resource(const Plan& plan, std::string_view name) {
  const auto found = std::ranges::lower_bound(plan.resources, name, {}, &PlannedResource::name);
  return found != plan.resources.end() && found->name == name ? &*found : nullptr;
}

const PlannedPool* find_pool(const Plan& plan, std::string_view id) {
  const auto found = std::ranges::lower_bound(plan.pools, id, {}, &PlannedPool::id);
  return found != plan.pools.end() && found->id == id ? &*found : nullptr;
}

const PlannedDevice* find_device(const PlannedResource& resource, std::string_view uuid) {
  const auto found = std::ranges::find(resource.devices, uuid, &PlannedDevice::uuid);
  return found == resource.devices.end() ? nullptr : &*found;
}

const PlannedDevice* find_device(const Plan& plan, std::string_view resource, std::string_view uuid) {
  const auto* found = find_resource(plan, resource);
  return found == nullptr ? nullptr : find_device(*found, uuid);
}

const PlannedDevice* find_device(const Plan& plan, std::string_view uuid) {
  for (const auto& resource : plan.resources)
    if (const auto* device = find_device(resource, uuid)) return device;
  return nullptr;
}

std::uint64_t slots_of(const PlannedResource& resource) {
  std::uint64_t slots = 0;
  for (const auto& device : resource.devices) slots += device.slots;
  return slots;
}

std::string name_of(const PlannedDevice& device) {
  return fmt::format("{} {} ({})", device.is_mig ? "MIG device" : "GPU", device.index, device.uuid);
}

std::pair<std::uint64_t, std::uint64_t> by_index(const PlannedDevice& device) {
  const auto parts = split(device.index, ':');
  const auto number = [&](std::size_t at) { return at < parts.size() ? parse_unsigned(parts[at]).value_or(0) : 0; };
  return {number(0), number(1)};
}

std::map<std::string, std::string> stale_devices(const Plan& plan, const gpu::Inventory& inventory,
                                                 config::MigStrategy strategy) {
  std::map<std::string, std::string> stale;
  for (const PlannedResource& resource : plan.resources) {
    for (const PlannedDevice& device : resource.devices) {
      if (std::string why = why_stale(device, inventory, strategy); !why.empty())
        stale.emplace(device.uuid, why + ", and no plan fits what is there now");
    }
  }
  return stale;
}

std::string render(const SlotId& id) {
  return id.ordinal ? fmt::format("{}{}{}", id.uuid, kSeparator, *id.ordinal) : std::string(id.uuid);
}

std::optional<SlotId> parse_slot_id(std::string_view text) {
  const auto at = text.find(kSeparator);
  if (at == std::string_view::npos) return text.empty() ? std::nullopt : std::optional(SlotId{text, {}});
  const std::string_view digits = text.substr(at + kSeparator.size());
  const auto ordinal = parse_unsigned(digits);
  const bool one_spelling = digits.size() == 1 || !digits.starts_with('0');  // "::01" would be a second name of slot 1
  if (at == 0 || !ordinal || !one_spelling || *ordinal > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return SlotId{text.substr(0, at), static_cast<std::uint32_t>(*ordinal)};
}

bool is_slot_of(const PlannedDevice& device, std::string_view id) {
  const auto slot = parse_slot_id(id);
  return slot && slot->uuid == device.uuid && slot->ordinal.has_value() == device.replicated &&
         slot->ordinal.value_or(0) < device.slots;
}

std::vector<std::string> slot_ids(const PlannedDevice& device) {
  std::vector<std::string> ids;
  for (std::uint32_t n = 0; n < device.slots; ++n)
    ids.push_back(render({device.uuid, device.replicated ? std::optional(n) : std::nullopt}));
  return ids;
}

std::string_view device_of(std::string_view slot_id) {
  return slot_id.substr(0, slot_id.find(kSeparator));
}

// --- what kubelet sees -----------------------------------------------------------------------------------------------

std::optional<gpu::Unhealthy> fault_of(const PlannedDevice& device, const Faults& faults) {
  for (const auto& uuid : {device.uuid, device.gpu_uuid})
    if (const auto* fault = find_in(faults.devices, uuid)) return *fault;
  const auto* why = find_in(faults.pools, device.pool);
  return why == nullptr ? std::nullopt : std::optional(gpu::Unhealthy{gpu::Cause::kPool, *why});
}

std::vector<Advertised> advertise(const Plan& plan, const Faults& faults, const Withheld& withheld) {
  std::vector<Advertised> lists;
  lists.reserve(plan.resources.size());
  for (const auto& resource : plan.resources) {
    std::vector<AdvertisedSlot> slots;
    for (const auto& device : resource.devices) {
      const bool healthy = !fault_of(device, faults);
      for (auto& id : slot_ids(device)) slots.push_back({std::move(id), healthy, device.numa_node});
    }
    lists.push_back({resource.name, std::move(slots)});
  }
  for (const auto& [resource, slots] : withheld) {
    auto list = std::ranges::lower_bound(lists, resource, {}, &Advertised::resource);
    if (list == lists.end() || list->resource != resource) list = lists.insert(list, Advertised{resource, {}});
    auto left = slots;
    std::vector<AdvertisedSlot> all = list->slots;
    for (auto& slot : all) slot.healthy = left.erase(slot.id) == 0 && slot.healthy;
    for (const auto& [id, why] : left) all.push_back({id, false, std::nullopt});
    list->slots = std::move(all);
  }
  return lists;
}

const std::string* reason_withheld(const Withheld& withheld, const std::string& resource, const std::string& slot) {
  const auto* slots = find_in(withheld, resource);
  return slots == nullptr ? nullptr : find_in(*slots, slot);
}

// --- as JSON ---------------------------------------------------------------------------------------------------------

void to_json(Json& json, const ShareLimits& share) {
  json = {{"memoryMiB", share.memory.in_mib()}, {"threadsPercent", share.threads.value()}, {"sms", share.sms}};
}

static void to_json(Json& json, const SharePolicy& policy) {
  json = {{"threads", to_string(policy.threads)},
          {"memory", to_string(policy.memory)},
          {"reserveMiB", policy.reserve.in_mib()}};
}

static void to_json(Json& json, const PlannedDevice& device) {
  json = {{"uuid", device.uuid},
          {"gpuUuid", device.gpu_uuid},
          {"index", device.index},
          {"mig", device.is_mig},
          {"replicated", device.replicated},
          {"slots", device.slots},
          {"share", device.share},
          {"memoryBytes", device.memory.value},
          {"smCount", device.sm_count},
          {"numaNode", device.numa_node ? Json(*device.numa_node) : Json()},
          {"paths", device.paths},
          {"pool", device.pool}};
  SharePolicy of_nvidia;
  of_nvidia.rounding = device.policy.rounding;
  if (device.policy != of_nvidia) json["policy"] = device.policy;
}

static Json requests_of(const PlannedDevice& device) {
  Json rows = Json::array();
  for (const std::uint32_t held : request_sizes(device.slots)) {
    Json row{{"slots", held}};
    row.update(Json(share_of(device, held)));
    rows.push_back(std::move(row));
  }
  return rows;
}

static void to_json(Json& json, const PlannedResource& resource) {
  json = {{"name", resource.name},
          {"originalName", resource.original_name},
          {"sharing", to_string(resource.sharing)},
          {"replicas", resource.replicas},
          {"oneSlotPerRequest", resource.one_slot_per_request},
          {"slots", slots_of(resource)}};
  if (resource.split == config::SplitPolicy::kSpan) json["split"] = to_string(resource.split);
  json["devices"] = resource.devices;
  if (resource.sharing != config::SharingStrategy::kMps || resource.one_slot_per_request) return;
  for (std::size_t i = 0; i < resource.devices.size(); ++i)
    json["devices"][i]["requests"] = requests_of(resource.devices[i]);
}

static void to_json(Json& json, const PlannedPool::Limit& limit) {
  json = {{"uuid", limit.uuid}, {"client", limit.client}};
}

static void to_json(Json& json, const PlannedPool& pool) {
  json = {{"id", pool.id},
          {"devices", pool.devices},
          {"maxClients", pool.max_clients},
          {"mig", pool.is_mig},
          {"computeMode", to_string(pool.compute_mode)},
          {"limits", pool.limits}};
}

void to_json(Json& json, const Plan& plan) {
  json = {{"resources", plan.resources}, {"pools", plan.pools}};
  if (!plan.for_claims.empty()) json["forClaims"] = plan.for_claims;
  json["leftOut"] = Json::array();
  for (const auto& [what, why] : plan.left_out) json["leftOut"].push_back({{"what", what}, {"why", why}});
  json["notes"] = plan.notes;
}

}  // namespace tranche::plan
