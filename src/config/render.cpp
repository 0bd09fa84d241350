#include "config/report.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "config/document/amounts.h"
#include "config/field.h"

namespace tranche::config {
namespace {

using Json = nlohmann::ordered_json;

// Writes the settings of one value whose paths begin with `start`.
void put_settings(const Target& target, std::string_view start, Json& into) {
  for (const Key& key : keys()) {
    if (key.json == nullptr || !key.path.starts_with(start)) continue;
    Json value = key.json(target);
    if (value.is_null()) continue;
    Json* at = &into;
    for (const std::string_view piece : split(key.path, '.')) at = &(*at)[std::string(piece)];
    *at = std::move(value);
  }
}

// Policies of an entry are written if they differ from the section's; a split if it differs from the names' default.
void add_policies(const Sharing& sharing, const SharedResource& resource, Json& entry) {
  if (resource.guard_memory) entry["guard"]["memory"] = to_string(*resource.guard_memory);
  if (!resource.names.empty()) entry["names"] = resource.names;
  if (resource.threads != sharing.threads) entry["threads"] = json_value(resource.threads);
  if (resource.memory != sharing.memory) entry["memory"] = json_value(resource.memory);
  const SplitPolicy usual = is_individual(resource) ? SplitPolicy::kSpan : SplitPolicy::kReject;
  if (resource.split != usual) entry["split"] = to_string(resource.split);
}

Json render(const Sharing& sharing, const SharedResource& resource, bool mps) {
  Json entry{{"name", resource.name}};
  if (resource.slot_memory)
    entry["slotMemory"] = render_memory_size(*resource.slot_memory);
  else
    entry["replicas"] = resource.replicas;
  if (resource.rename) entry["rename"] = *resource.rename;
  if (const auto* count = std::get_if<DeviceCount>(&resource.devices)) entry["devices"] = count->count;
  if (const auto* refs = std::get_if<std::vector<DeviceRef>>(&resource.devices)) entry["devices"] = json_value(*refs);
  if (mps) add_policies(sharing, resource, entry);
  return entry;
}

Json render(const Sharing& sharing) {
  Json json = Json::object();
  if (sharing.per_device) json["perDevice"] = true;
  if (sharing.strategy == SharingStrategy::kNone) return json;
  const bool mps = sharing.strategy == SharingStrategy::kMps;
  Json& section = json[mps ? "mps" : "timeSlicing"];
  section["renameByDefault"] = sharing.rename_by_default;
  section["failRequestsGreaterThanOne"] = sharing.fail_requests_greater_than_one;
  section["resources"] = Json::array();
  Json beside = Json::array();
  for (const SharedResource& resource : sharing.resources) {
    const bool time_sliced = mps && resource.strategy == SharingStrategy::kTimeSlicing;
    (time_sliced ? beside : section["resources"]).push_back(render(sharing, resource, mps && !time_sliced));
  }
  if (!beside.empty())
    json["timeSlicing"] = {{"failRequestsGreaterThanOne", sharing.one_time_slice}, {"resources", std::move(beside)}};
  return json;
}

Json render(const Config& config) {
  const Target target{config, {}};
  Json json{{"version", config.version}};
  put_settings(target, "flags.", json);
  json["sharing"] = render(config.sharing);
  if (config.sharing.strategy == SharingStrategy::kMps) put_settings(target, "sharing.mps.", json);
  put_settings(target, "devices.", json);
  if (config.dra != Dra{}) put_settings(target, "dra.", json);
  put_settings(target, "imex.", json);
  return json;
}

}  // namespace

std::string render_line(const Config& config) {
  return json_text(render(config));
}

}  // namespace tranche::config
