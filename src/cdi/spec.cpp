#include "cdi/spec.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace tranche::cdi {
namespace {

bool has_host_path(const Edits& edits) {
  return std::ranges::any_of(edits.device_nodes, [](const DeviceNode& node) { return !node.host_path.empty(); });
}

bool needs_0_5_0(const Device& device) {
  const bool starts_with_digit = !device.name.empty() && device.name.front() >= '0' && device.name.front() <= '9';
  return starts_with_digit || has_host_path(device.edits);
}

using Json = nlohmann::ordered_json;

template <class Value>
void put(Json& json, const char* key, const Value& value) {
  if (!value.empty()) json[key] = value;
}

Json to_json(const DeviceNode& node) {
  Json json{{"path", node.path}};
  put(json, "hostPath", node.host_path);
  json["permissions"] = "rw";
  return json;
}

Json to_json(const Mount& mount) {
  Json json{{"hostPath", mount.host_path}, {"containerPath", mount.container_path}};
  put(json, "options", mount.options);
  return json;
}

Json to_json(const Hook& hook) {
  return {{"hookName", "createContainer"},
          {"path", hook.path},
          {"args", hook.args},
          {"env", Json::array({"NVIDIA_CTK_DEBUG=false"})}};
}

template <class Value>
void put_list(Json& json, const char* key, const std::vector<Value>& values) {
  for (const auto& value : values) json[key].push_back(to_json(value));
}

Json to_json(const Edits& edits) {
  Json json = Json::object();
  put(json, "env", edits.env);
  put_list(json, "deviceNodes", edits.device_nodes);
  put_list(json, "mounts", edits.mounts);
  put_list(json, "hooks", edits.hooks);
  return json;
}

}  // namespace

std::string minimum_version(const Spec& spec) {
  return has_host_path(spec.edits) || std::ranges::any_of(spec.devices, needs_0_5_0) ? "0.5.0" : "0.3.0";
}

std::string file_name(const std::string& cls) {
  return std::string(kVendor) + "-" + cls + ".json";
}

std::string render(const Spec& spec) {
  Json json{{"cdiVersion", minimum_version(spec)}, {"kind", spec.vendor + "/" + spec.cls}};
  json["devices"] = Json::array();
  for (const Device& device : spec.devices)
    json["devices"].push_back({{"name", device.name}, {"containerEdits", to_json(device.edits)}});
  if (!spec.edits.empty()) json["containerEdits"] = to_json(spec.edits);
  return json_text(json, 2) + "\n";
}

}  // namespace tranche::cdi
