#include "plan/plan_json.h"

#include <nlohmann/json.hpp>

#include "plan/shares.h"

namespace tranche::plan {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const ShareLimits& share) {
  return {{"memoryMiB", share.memory.in_mib()}, {"threadsPercent", share.threads.value()}, {"sms", share.sms}};
}

// Whether the policy contains more than NVIDIA's rules.
bool is_ours(const SharePolicy& policy) {
  SharePolicy theirs;
  theirs.rounding = policy.rounding;
  return policy != theirs;
}

Json to_json(const SharePolicy& policy) {
  return {{"threads", to_string(policy.threads)},
          {"memory", to_string(policy.memory)},
          {"reserveMiB", policy.reserve.in_mib()}};
}

Json to_json(const PlannedDevice& device) {
  Json json{{"uuid", device.uuid},
            {"gpuUuid", device.gpu_uuid},
            {"index", device.index},
            {"mig", device.is_mig},
            {"replicated", device.replicated},
            {"slots", device.slots},
            {"share", to_json(device.share)},
            {"memoryBytes", device.memory.value},
            {"smCount", device.sm_count}};
  json["numaNode"] = device.numa_node ? Json(*device.numa_node) : Json();
  json["paths"] = device.paths;
  json["pool"] = device.pool;
  if (is_ours(device.policy)) json["policy"] = to_json(device.policy);
  return json;
}

Json requests_of(const PlannedDevice& device) {
  Json rows = Json::array();
  for (const std::uint32_t held : request_sizes(device.slots)) {
    Json row{{"slots", held}};
    row.update(to_json(share_of(device, held)));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json to_json(const PlannedResource& resource) {
  std::uint64_t slots = 0;
  for (const auto& device : resource.devices) slots += device.slots;
  Json json{{"name", resource.name},
            {"originalName", resource.original_name},
            {"sharing", std::string(to_string(resource.sharing))},
            {"replicas", resource.replicas},
            {"oneSlotPerRequest", resource.one_slot_per_request},
            {"slots", slots}};
  if (resource.split == config::SplitPolicy::kSpan) json["split"] = std::string(to_string(resource.split));
  json["devices"] = Json::array();
  const bool sizes = resource.sharing == config::SharingStrategy::kMps && !resource.one_slot_per_request;
  for (const auto& device : resource.devices) {
    json["devices"].push_back(to_json(device));
    if (sizes) json["devices"].back()["requests"] = requests_of(device);
  }
  return json;
}

Json to_json(const PlannedPool& pool) {
  Json json{{"id", pool.id},
            {"devices", pool.devices},
            {"maxClients", pool.max_clients},
            {"mig", pool.is_mig},
            {"computeMode", std::string(to_string(pool.compute_mode))}};
  json["limits"] = Json::array();
  for (const auto& limit : pool.limits)
    json["limits"].push_back({{"uuid", limit.uuid}, {"client", to_json(limit.client)}});
  return json;
}

}  // namespace

nlohmann::ordered_json to_json(const Plan& plan) {
  Json json;
  json["resources"] = Json::array();
  for (const auto& resource : plan.resources) json["resources"].push_back(to_json(resource));
  json["pools"] = Json::array();
  for (const auto& pool : plan.pools) json["pools"].push_back(to_json(pool));
  if (!plan.for_claims.empty()) {
    json["forClaims"] = Json::array();
    for (const auto& device : plan.for_claims) json["forClaims"].push_back(to_json(device));
  }
  json["leftOut"] = Json::array();
  for (const auto& left : plan.left_out) json["leftOut"].push_back({{"what", left.what}, {"why", left.why}});
  json["notes"] = plan.notes;
  return json;
}

}  // namespace tranche::plan
