#include "cdi/json.h"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "base/text.h"
#include "cdi/json_object.h"
#include "cdi/names.h"

namespace tranche::cdi {
namespace {

constexpr std::array<std::string_view, 8> kVersions{"0.3.0", "0.4.0", "0.5.0", "0.6.0",
                                                    "0.7.0", "0.8.0", "1.0.0", "1.1.0"};
constexpr std::array<std::string_view, 6> kHookNames{"prestart",       "createRuntime", "createContainer",
                                                     "startContainer", "poststart",     "poststop"};
constexpr std::array<std::string_view, 5> kNodeTypes{"", "b", "c", "u", "p"};

std::size_t place_of(std::string_view version) {
  return static_cast<std::size_t>(std::ranges::find(kVersions, version) - kVersions.begin());
}

// ---- writing

template <class Value>
void put(Json& json, const char* key, const Value& value) {
  if (!value.empty()) json[key] = value;
}
template <class Value>
void put(Json& json, const char* key, const std::optional<Value>& value) {
  if (value) json[key] = *value;
}

Json to_json(const DeviceNode& node) {
  Json json{{"path", node.path}};
  put(json, "hostPath", node.host_path);
  put(json, "type", node.type);
  put(json, "major", node.major);
  put(json, "minor", node.minor);
  put(json, "fileMode", node.file_mode);
  put(json, "permissions", node.permissions);
  put(json, "uid", node.uid);
  put(json, "gid", node.gid);
  return json;
}

Json to_json(const Mount& mount) {
  Json json{{"hostPath", mount.host_path}, {"containerPath", mount.container_path}};
  put(json, "type", mount.type);
  put(json, "options", mount.options);
  return json;
}

Json to_json(const Hook& hook) {
  Json json{{"hookName", hook.name}, {"path", hook.path}};
  put(json, "args", hook.args);
  put(json, "env", hook.env);
  put(json, "timeout", hook.timeout_seconds);
  return json;
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
  put(json, "additionalGids", edits.additional_gids);
  return json;
}

Json to_json(const Device& device) {
  Json json{{"name", device.name}};
  put(json, "annotations", device.annotations);
  json["containerEdits"] = to_json(device.edits);
  return json;
}

// ---- reading

void read_path(const Object& object, const char* key, std::string& into, bool required) {
  object.text(key, into, required);
  if (object.has(key)) object.refuse_if(key, fault_of_path(into), "write the whole path from /");
}

void read_env(const Object& object, std::vector<std::string>& into) {
  object.texts("env", into);
  for (std::size_t i = 0; i < into.size(); ++i)
    object.refuse_if("env[" + std::to_string(i) + "]", fault_of_env(into[i]), "write for example: NAME=value");
}

DeviceNode read_node(const Object& object) {
  DeviceNode node;
  object.only({"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"});
  read_path(object, "path", node.path, true);
  read_path(object, "hostPath", node.host_path, false);
  object.text("type", node.type, false);
  if (std::ranges::find(kNodeTypes, node.type) == kNodeTypes.end())
    object.refuse("type", "must be b, c, u or p, but is " + in_quotes(node.type), "leave it out for a device node");
  object.number("major", node.major);
  object.number("minor", node.minor);
  object.number("fileMode", node.file_mode);
  object.number("uid", node.uid);
  object.number("gid", node.gid);
  object.text("permissions", node.permissions, false);
  if (node.permissions.find_first_not_of("rwm") != std::string::npos)
    object.refuse("permissions", "must be of the letters r, w and m, but is " + in_quotes(node.permissions),
                  "write for example: rw");
  return node;
}

Mount read_mount(const Object& object) {
  Mount mount;
  object.only({"hostPath", "containerPath", "type", "options"});
  read_path(object, "hostPath", mount.host_path, true);
  read_path(object, "containerPath", mount.container_path, true);
  object.text("type", mount.type, false);
  object.texts("options", mount.options);
  return mount;
}

Hook read_hook(const Object& object) {
  Hook hook;
  object.only({"hookName", "path", "args", "env", "timeout"});
  object.text("hookName", hook.name, true);
  if (object.has("hookName") && std::ranges::find(kHookNames, hook.name) == kHookNames.end()) {
    const std::string meant = did_you_mean(hook.name, {kHookNames.begin(), kHookNames.end()});
    object.refuse("hookName", "is no hook of a container runtime: " + in_quotes(hook.name),
                  "write " + (meant.empty() ? "for example createContainer" : meant));
  }
  read_path(object, "path", hook.path, true);
  object.texts("args", hook.args);
  read_env(object, hook.env);
  object.number("timeout", hook.timeout_seconds);
  if (hook.timeout_seconds == 0u) object.refuse("timeout", "must be more than 0", "leave it out to wait without end");
  return hook;
}

Edits read_edits(const Object& object) {
  Edits edits;
  for (const char* foreign : {"intelRdt", "netDevices"})
    if (object.has(foreign)) object.refuse(foreign, "is not read here: it has nothing to do with GPUs", "leave it out");
  object.only({"env", "deviceNodes", "mounts", "hooks", "additionalGids", "intelRdt", "netDevices"});
  read_env(object, edits.env);
  object.each("deviceNodes", [&](const Object& item) { edits.device_nodes.push_back(read_node(item)); });
  object.each("mounts", [&](const Object& item) { edits.mounts.push_back(read_mount(item)); });
  object.each("hooks", [&](const Object& item) { edits.hooks.push_back(read_hook(item)); });
  object.numbers("additionalGids", edits.additional_gids);
  return edits;
}

Device read_device(const Object& object) {
  Device device;
  object.only({"name", "annotations", "containerEdits"});
  object.text("name", device.name, true);
  if (object.has("name"))
    object.refuse_if("name", fault_of_device(device.name), "write for example a UUID or an index");
  object.map("annotations", device.annotations);
  if (const auto edits = object.object("containerEdits", true)) {
    device.edits = read_edits(*edits);
    if (device.edits.empty())
      object.refuse("containerEdits", "must not be empty: the device would give nothing", "leave the device out");
  }
  return device;
}

void read_kind(const Object& root, Spec& spec) {
  std::string kind;
  root.text("kind", kind, true);
  if (!root.has("kind")) return;
  const auto slash = kind.find('/');
  if (slash == std::string::npos) return root.refuse("kind", "must be written vendor/class", "write example.com/gpu");
  spec.vendor = kind.substr(0, slash);
  spec.cls = kind.substr(slash + 1);
  if (const auto fault = fault_of_vendor(spec.vendor); !fault.empty())
    root.refuse("kind", "has a vendor that " + fault, "write for example example.com/gpu");
  if (const auto fault = fault_of_class(spec.cls); !fault.empty())
    root.refuse("kind", "has a class that " + fault, "write for example example.com/gpu");
}

void check_version(const Object& root, const Spec& spec) {
  if (!root.has("cdiVersion")) return;
  if (place_of(spec.version) == kVersions.size()) {
    return root.refuse("cdiVersion", "is no version of the specification: " + in_quotes(spec.version),
                       "write one from 0.3.0 to 1.1.0");
  }
  const std::string least = minimum_version(spec);
  if (place_of(spec.version) < place_of(least))
    root.refuse("cdiVersion", "is older than what the spec uses", "write " + least);
}

void check_devices(const Object& root, const Spec& spec) {
  if (spec.devices.empty()) root.refuse("devices", "must have at least one device", "remove the file instead");
  std::set<std::string_view> seen;
  for (const Device& device : spec.devices)
    if (!seen.insert(device.name).second)
      root.refuse("devices", "name " + in_quotes(device.name) + " twice", "give every device a name of its own");
}

}  // namespace

std::string render(const Spec& spec) {
  Json json{{"cdiVersion", spec.version}, {"kind", spec.vendor + "/" + spec.cls}};
  put(json, "annotations", spec.annotations);
  json["devices"] = Json::array();
  for (const Device& device : spec.devices) json["devices"].push_back(to_json(device));
  if (!spec.edits.empty()) json["containerEdits"] = to_json(spec.edits);
  // A path that is not UTF-8 must not end the program; the strict parser detects the difference when the file is read
  // back.
  return json_text(json, 2) + "\n";
}

ParsedSpec parse_spec(std::string_view text, std::string_view source) {
  ParsedSpec parsed;
  const Json json = json_of(text);
  const Object root(json, "", parsed.problems, source);
  if (json.is_discarded()) {
    root.refuse("", "is not valid JSON", "write the CDI spec file again");
    return parsed;
  }
  if (!json.is_object()) {
    root.refuse("", "must be an object", "write {\"cdiVersion\": …, \"kind\": …, \"devices\": […]}");
    return parsed;
  }
  Spec& spec = parsed.spec;
  root.only({"cdiVersion", "kind", "annotations", "devices", "containerEdits"});
  root.text("cdiVersion", spec.version, true);
  read_kind(root, spec);
  root.map("annotations", spec.annotations);
  root.each("devices", [&](const Object& item) { spec.devices.push_back(read_device(item)); });
  if (const auto edits = root.object("containerEdits", false)) spec.edits = read_edits(*edits);
  if (has_error(parsed.problems)) return parsed;
  check_devices(root, spec);
  check_version(root, spec);
  return parsed;
}

}  // namespace tranche::cdi
