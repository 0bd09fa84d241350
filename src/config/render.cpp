#include "config/render.h"

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "base/json_text.h"
#include "config/document/amounts.h"
#include "config/document/duration.h"
#include "config/enum_text.h"
#include "config/model.h"

namespace tranche::config {
namespace {

using Json = nlohmann::ordered_json;

Json number(std::uint32_t hundredths) {
  if (hundredths % 100 == 0) return hundredths / 100;
  return hundredths / 100.0;
}

Json render(const ThreadsPolicy& policy) {
  if (policy.kind == ThreadsPolicy::Kind::kFactor) return {{"factor", number(policy.factor_hundredths)}};
  if (policy.kind == ThreadsPolicy::Kind::kSms) return {{"sms", policy.sms}};
  return to_string(policy);
}

Json render(const MemoryPolicy& policy) {
  if (policy.kind == MemoryPolicy::Kind::kFactor) return {{"factor", number(policy.factor_hundredths)}};
  return to_string(policy);
}

Json render(const DeviceSelection& selection) {
  if (const auto* count = std::get_if<DeviceCount>(&selection)) return count->count;
  Json list = Json::array();
  if (const auto* refs = std::get_if<std::vector<DeviceRef>>(&selection))
    for (const DeviceRef& ref : *refs) list.push_back(ref.text);
  return list;
}

// Policies of an entry are written if they differ from the section's; a split if it differs from the names' default.
void add_policies(const Sharing& sharing, const SharedResource& resource, Json& entry) {
  if (resource.guard_memory) entry["guard"]["memory"] = word(*resource.guard_memory);
  if (!resource.names.empty()) entry["names"] = resource.names;
  if (resource.threads != sharing.threads) entry["threads"] = render(resource.threads);
  if (resource.memory != sharing.memory) entry["memory"] = render(resource.memory);
  const SplitPolicy usual = is_individual(resource) ? SplitPolicy::kSpan : SplitPolicy::kReject;
  if (resource.split != usual) entry["split"] = word(resource.split);
}

Json render(const Sharing& sharing, const SharedResource& resource, bool mps) {
  Json entry{{"name", resource.name}};
  if (resource.slot_memory)
    entry["slotMemory"] = render_memory_size(*resource.slot_memory);
  else
    entry["replicas"] = resource.replicas;
  if (resource.rename) entry["rename"] = *resource.rename;
  if (!std::holds_alternative<AllDevices>(resource.devices)) entry["devices"] = render(resource.devices);
  if (mps) add_policies(sharing, resource, entry);
  return entry;
}

void add_mps(const Sharing& sharing, Json& section) {
  if (sharing.threads != ThreadsPolicy{}) section["threads"] = render(sharing.threads);
  if (sharing.memory != MemoryPolicy{}) section["memory"] = render(sharing.memory);
  if (sharing.reserve != Reserve{}) section["reserve"] = to_string(sharing.reserve);
  section["computeMode"] = word(sharing.compute_mode);
  section["smRounding"] = word(sharing.sm_rounding);
  section["endpoint"] = word(sharing.endpoint);
  section["guard"] = {{"interval", render_duration(sharing.guard.interval)},
                      {"memory", word(sharing.guard.memory)},
                      {"foreignProcesses", word(sharing.guard.foreign_processes)}};
  section["proofEvery"] = render_duration(sharing.proof_every);
  if (sharing.max_clients != 0) section["maxClients"] = sharing.max_clients;
  section["processesPerSlot"] = sharing.processes_per_slot;
  section["migDevices"] = sharing.mig_devices;
  section["stopPatience"] = render_duration(sharing.stop_patience);
  section["frameworkEnvironment"] = sharing.framework_environment;
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
  if (mps) add_mps(sharing, section);
  if (!beside.empty())
    json["timeSlicing"] = {{"failRequestsGreaterThanOne", sharing.one_time_slice}, {"resources", std::move(beside)}};
  return json;
}

using Json = nlohmann::ordered_json;

Json render(const PluginFlags& plugin) {
  Json json{{"passDeviceSpecs", plugin.pass_device_specs}};
  json["deviceListStrategy"] = Json::array();
  for (const ListStrategy strategy : plugin.device_list_strategy) json["deviceListStrategy"].push_back(word(strategy));
  json["deviceIDStrategy"] = word(plugin.device_id_strategy);
  json["cdiAnnotationPrefix"] = plugin.cdi_annotation_prefix;
  json["nvidiaCTKPath"] = plugin.nvidia_ctk_path;
  json["containerDriverRoot"] = plugin.container_driver_root;
  json["sharedDevicesAllocationPolicy"] = word(plugin.shared_devices_allocation_policy);
  return json;
}

Json render(const GfdFlags& gfd) {
  Json json{{"oneshot", gfd.oneshot}, {"noTimestamp", gfd.no_timestamp}};
  if (gfd.sleep_interval == Duration::min())  // one more than any notation with a unit can express
    json["sleepInterval"] = gfd.sleep_interval.count();
  else
    json["sleepInterval"] = render_duration(gfd.sleep_interval);
  json["outputFile"] = gfd.output_file;
  json["machineTypeFile"] = gfd.machine_type_file;
  return json;
}

Json render(const Flags& flags) {
  Json json{{"migStrategy", word(flags.mig_strategy)},
            {"failOnInitError", flags.fail_on_init_error},
            {"mpsRoot", flags.mps_root},
            {"nvidiaDriverRoot", flags.nvidia_driver_root},
            {"nvidiaDevRoot", flags.nvidia_dev_root},
            {"gdrcopyEnabled", flags.gdrcopy_enabled},
            {"gdsEnabled", flags.gds_enabled},
            {"mofedEnabled", flags.mofed_enabled},
            {"useNodeFeatureAPI", flags.use_node_feature_api},
            {"deviceDiscoveryStrategy", word(flags.device_discovery_strategy)}};
  json["plugin"] = render(flags.plugin);
  json["gfd"] = render(flags.gfd);
  return json;
}

Json render(const Config& config) {
  Json json{{"version", config.version}};
  json["flags"] = render(config.flags);
  json["sharing"] = render(config.sharing);
  for (const auto& [key, refs] :
       {std::pair{"include", &config.devices.include}, std::pair{"exclude", &config.devices.exclude}})
    for (const DeviceRef& ref : *refs) json["devices"][key].push_back(ref.text);
  Json for_claims = word(config.dra.devices);
  if (config.dra.devices == DraDevices::kListed) for_claims = Json::array();
  for (const DeviceRef& ref : config.dra.listed) for_claims.push_back(ref.text);
  if (config.dra != Dra{})
    json["dra"] = {{"devices", std::move(for_claims)},
                   {"driverName", config.dra.driver_name},
                   {"split", word(config.dra.split)},
                   {"partitions", word(config.dra.partitions)}};
  json["imex"]["channelIDs"] = config.imex.channel_ids;
  json["imex"]["required"] = config.imex.required;
  return json;
}

}  // namespace

std::string render_json(const Config& config) {
  return json_text(render(config), 2) + "\n";
}

std::string render_line(const Config& config) {
  return json_text(render(config));
}

}  // namespace tranche::config
