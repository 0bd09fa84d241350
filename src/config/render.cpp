#include "config/render.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "config/document/duration.h"
#include "config/enum_text.h"
#include "config/render_sharing.h"

namespace tranche::config {
namespace {

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
  json["sharing"] = render_sharing(config.sharing);
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
