#include "plan/plan.h"

#include <nlohmann/json.hpp>

#include "plan/shares.h"

namespace tranche::plan {

namespace {
using Json = nlohmann::ordered_json;
}

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
