#include "plan/json.h"

#include <nlohmann/json.hpp>

namespace tranche::plan {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const ShareLimits& share) {
  return {{"memoryMiB", share.memory.in_mib()}, {"threadsPercent", share.threads.value()}, {"sms", share.sms}};
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
  return json;
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
  json["devices"] = Json::array();
  for (const auto& device : resource.devices) json["devices"].push_back(to_json(device));
  return json;
}

Json to_json(const PlannedPool& pool) {
  Json json{{"id", pool.id},
            {"devices", pool.devices},
            {"maxClients", pool.max_clients},
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
  json["leftOut"] = Json::array();
  for (const auto& left : plan.left_out) json["leftOut"].push_back({{"what", left.what}, {"why", left.why}});
  json["notes"] = plan.notes;
  return json;
}

}  // namespace tranche::plan
