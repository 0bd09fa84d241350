#include "dra/claim_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "kube/event_queue.h"

namespace tranche::dra {
namespace {

using Json = nlohmann::json;

constexpr const char* kTime = "lastTransitionTime";

Json data_of(const Part& part) {
  Json data{{"gpu", part.gpu_uuid}, {"kind", to_string(part.kind)}};
  if (part.limits.memory.value > 0) data["memoryBytes"] = part.limits.memory.value;
  if (part.limits.sms > 0) data["sms"] = part.limits.sms;
  if (part.cores > 0) data["cores"] = part.cores;
  return data;
}

bool is_same_device(const Json& a, const Json& b) {
  return std::ranges::all_of(std::to_array<const char*>({"driver", "pool", "device", "shareID"}),
                             [&](const char* key) { return text_at(a, key) == text_at(b, key); });
}

const Json& stored_devices(const Json& stored) {
  return list_at(map_at(stored, "status"), "devices");
}

// Since when the condition has its status; "" = it has changed now.
std::string time_of(const Json& stored, const Json& entry, const Json& condition) {
  for (const Json& device : stored_devices(stored)) {
    if (!is_same_device(device, entry)) continue;
    for (const Json& each : list_at(device, "conditions"))
      if (text_at(each, "type") == text_at(condition, "type") &&
          text_at(each, "status") == text_at(condition, "status"))
        return text_at(each, kTime);
  }
  return {};
}

}  // namespace

void add_part(ClaimStatus& status, const Part& part, const Json& conditions) {
  for (const auto& device : part.devices) {
    Json entry{{"driver", status.driver}, {"pool", device.pool}, {"device", device.device}};
    if (!device.share_id.empty()) entry["shareID"] = device.share_id;
    entry["conditions"] = conditions;
    entry["data"] = data_of(part);
    status.entries.push_back(json_text(entry));
  }
}

std::string claim_path(const ClaimName& claim) {
  return fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}", claim.claim_namespace, claim.name);
}

std::string claim_status_path(const ClaimName& claim) {
  return claim_path(claim) + "/status?fieldManager=tranche-node&force=true";
}

std::string part_text(const Part& part) {
  if (part.kind == Kind::kMonitor) return fmt::format("{} for monitoring, without memory or SMs", part.gpu_uuid);
  if (part.limits.memory.value == 0 && part.limits.sms == 0) return fmt::format("all of {}", part.gpu_uuid);
  return fmt::format("at most {} MiB and {} SMs of {}", part.limits.memory.in_mib(), part.limits.sms, part.gpu_uuid);
}

std::optional<std::string> changed_status(const ClaimStatus& status, const Json& stored, WallTime now) {
  Json entries = Json::array();
  for (const auto& text : status.entries) {
    Json& entry = entries.emplace_back(json_of(text));
    for (Json& condition : entry["conditions"]) {
      auto since = time_of(stored, entry, condition);
      condition[kTime] = since.empty() ? kube::utc_seconds(now) : std::move(since);
    }
  }
  Json ours = Json::array();
  for (const Json& entry : stored_devices(stored))
    if (text_at(entry, "driver") == status.driver) ours.push_back(entry);
  if (std::ranges::is_permutation(ours, entries)) return std::nullopt;
  return json_text(Json{
      {"apiVersion", "resource.k8s.io/v1"},
      {"kind", "ResourceClaim"},
      {"metadata", {{"name", status.name.name}, {"namespace", status.name.claim_namespace}, {"uid", status.name.uid}}},
      {"status", {{"devices", std::move(entries)}}}});
}

}  // namespace tranche::dra
