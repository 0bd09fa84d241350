#pragma once
// The rules of the CDI specification for the specs that Tranche writes.
#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "cdi/spec.h"

namespace tranche::test {

// The first part of a spec that a container runtime refuses; "" = none.
inline std::string fault_of(const cdi::Spec& spec) {
  static const std::regex name("[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?");
  static const std::regex device("[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?");
  static const std::regex path("/.*"), upwards("(.*/)?\\.\\.(/.*)?");
  const auto is = [](const std::string& text, const std::regex& rule) { return std::regex_match(text, rule); };
  const auto bad_path = [&](const std::string& text) { return !is(text, path) || is(text, upwards); };
  if (!is(spec.vendor, name) || spec.vendor.size() > 253) return "vendor " + spec.vendor;
  if (!is(spec.cls, name) || spec.cls.size() > 63) return "class " + spec.cls;
  if (spec.devices.empty()) return "no devices";
  std::set<std::string> names;
  for (const auto& each : spec.devices) {
    if (!is(each.name, device) || each.name.size() > 253 || !names.insert(each.name).second) return "name " + each.name;
    if (each.edits.empty()) return "no edits in " + each.name;
  }
  const auto in = [&](const cdi::Edits& edits) -> std::string {
    for (const auto& entry : edits.env)
      if (entry.find('=') == std::string::npos || entry.front() == '=') return "env " + entry;
    for (const auto& node : edits.device_nodes)
      if (bad_path(node.path) || (!node.host_path.empty() && bad_path(node.host_path)))
        return "device node " + node.path;
    for (const auto& mount : edits.mounts)
      if (bad_path(mount.host_path) || bad_path(mount.container_path)) return "mount " + mount.container_path;
    for (const auto& hook : edits.hooks)
      if (bad_path(hook.path)) return "hook " + hook.path;
    return "";
  };
  std::string fault = in(spec.edits);
  for (const auto& each : spec.devices)
    if (fault.empty()) fault = in(each.edits);
  return fault;
}

}  // namespace tranche::test
