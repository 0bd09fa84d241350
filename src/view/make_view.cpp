#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "view/view.h"

namespace tranche::view {
namespace {

using Json = nlohmann::json;

// Reading without exceptions: a field of another type is as absent as one that is not there.
const Json& at(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto it = object.find(key);
  return it == object.end() ? kNull : *it;
}
std::string text(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}
std::uint64_t number(const Json& object, const char* key) {
  const Json& value = at(object, key);
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_integer())
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, value.get<std::int64_t>()));
  return 0;
}
bool truth(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_boolean() && value.get<bool>();
}
const Json& list(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json& value = at(object, key);
  return value.is_array() ? value : kEmpty;
}

// "namespace/pod/container" → the tenant's name and its main process, as the kubelet double knows them.
struct Container {
  std::int64_t pid = 0;
};

std::map<std::string, Container> containers_of(const Json& kubelet) {
  std::map<std::string, Container> found;
  for (const Json& pod : list(kubelet, "pods")) {
    for (const Json& container : list(pod, "containers")) {
      const std::string key = text(pod, "namespace") + "/" + text(pod, "name") + "/" + text(container, "name");
      found[key] = {static_cast<std::int64_t>(number(container, "pid"))};
    }
  }
  return found;
}

struct Process {
  std::uint64_t memory_mib = 0;
};

Device read_device(const Json& json) {
  Device device;
  device.index = text(json, "index");
  device.uuid = text(json, "uuid");
  device.name = text(json, "name");
  device.resource = text(json, "resource");
  device.sharing = text(json, "sharing");
  device.memory_mib = number(json, "memoryMiB");
  device.used_mib = number(json, "memoryUsedMiB");
  device.sm_count = static_cast<std::uint32_t>(number(json, "smCount"));
  device.healthy = truth(json, "healthy");
  device.reason = text(json, "reason");
  device.pool_state = text(json, "poolState");
  return device;
}

void put_tenants(Device& device, const Json& json, const Json& grants,
                 const std::map<std::string, Container>& containers) {
  std::map<std::int64_t, Process> processes;
  std::map<std::string, std::vector<std::int64_t>> pids_of_grant;
  for (const Json& p : list(json, "processes")) {
    const auto pid = static_cast<std::int64_t>(number(p, "pid"));
    processes[pid] = {number(p, "memoryMiB")};
    if (const std::string grant = text(p, "grant"); !grant.empty()) pids_of_grant[grant].push_back(pid);
  }
  std::map<std::string, int> index;
  for (const Json& grant : grants) {
    if (text(grant, "resource") != device.resource) continue;
    for (const Json& part : list(grant, "devices")) {
      if (text(part, "uuid") != device.uuid) continue;
      const std::string key = text(grant, "namespace") + "/" + text(grant, "pod") + "/" + text(grant, "container");
      Tenant tenant;
      tenant.name = text(grant, "namespace") + "/" + text(grant, "pod");
      if (text(grant, "container") != "main") tenant.name += "/" + text(grant, "container");
      tenant.resource = device.resource;
      tenant.slots = static_cast<std::uint32_t>(number(part, "slots"));
      tenant.limit_mib = number(part, "memoryMiB");
      tenant.sms = static_cast<std::uint32_t>(number(part, "sms"));
      if (const auto it = containers.find(key); it != containers.end() && it->second.pid > 0) {
        tenant.pids.push_back(it->second.pid);
        const auto process = processes.find(it->second.pid);
        tenant.used_mib = process == processes.end() ? 0 : process->second.memory_mib;
      }
      if (const auto it = pids_of_grant.find(text(grant, "grant")); it != pids_of_grant.end() && !tenant.used_mib) {
        tenant.pids = it->second;
        tenant.used_mib = 0;
        for (const auto pid : tenant.pids) *tenant.used_mib += processes[pid].memory_mib;
      }
      index[key] = static_cast<int>(device.tenants.size());
      device.tenants.push_back(std::move(tenant));
    }
  }
  for (const Json& slot : list(json, "slots")) {
    const auto it = index.find(text(slot, "holder"));
    device.slots.push_back(it == index.end() ? -1 : it->second);
  }
}

void put_pods(View& view, const Json& kubelet) {
  for (const Json& pod : list(kubelet, "pods")) {
    const std::string phase = text(pod, "phase");
    if (phase == "Running") continue;
    const std::string name = text(pod, "namespace") + "/" + text(pod, "name");
    std::string reason = text(pod, "message").empty() ? text(pod, "reason") : text(pod, "message");
    if (phase == "Pending") {
      view.waiting.push_back({name, reason});
      continue;
    }
    for (const Json& container : list(pod, "containers")) {  // what the program itself said last says more
      if (const std::string said = text(at(container, "last_output_json"), "error"); !said.empty()) reason = said;
    }
    view.ended.push_back({name, reason.empty() ? phase : phase + ": " + reason});
  }
}

void put_promises(View& view, const Json& status) {
  for (const Json& row : list(status, "inForce")) {
    if (const std::string what = text(row, "promise"); !what.empty())
      view.promises.push_back({what, text(row, "state"), text(row, "by"), text(row, "why")});
  }
}

void put_head(View& view, const Json& status) {
  const Json& driver = at(status, "driver");
  view.driver_ready = text(driver, "state") == "ready";
  view.driver = view.driver_ready ? "driver " + text(driver, "version") : "no driver: " + text(driver, "reason");
  const Json& config = at(status, "config");
  view.config = text(config, "path").empty() ? "built-in defaults"
                                             : fmt::format("{} ({})", text(config, "path"), text(config, "inForce"));
  if (const auto by = text(config, "chosenBy"); !by.empty() && by != "file" && by != "defaults")
    view.config += ", chosen by " + by;
  std::vector<std::string> resources;
  view.kubelet_ready = true;
  for (const Json& resource : list(status, "resources")) {
    const bool registered = truth(resource, "registered");
    view.kubelet_ready = view.kubelet_ready && registered;
    std::string line =
        fmt::format("{}: {} slots, {} healthy, {} held", text(resource, "name"), number(resource, "slots"),
                    number(resource, "healthy"), number(resource, "allocated"));
    if (!registered) line += "; not registered with kubelet: " + text(resource, "problem");
    resources.push_back(std::move(line));
  }
  view.kubelet = resources.empty() ? "nothing advertised" : join(resources, " · ");
  for (const char* key : {"planProblems", "notes"}) {
    for (const Json& entry : list(status, key)) {
      if (entry.is_string()) (key[0] == 'n' ? view.notes : view.problems).push_back(entry.get<std::string>());
    }
  }
  for (const Json& entry : list(config, "problems"))
    if (entry.is_string()) view.problems.push_back(entry.get<std::string>());
  for (const Json& entry : list(at(status, "health"), "problems"))
    if (entry.is_string()) view.problems.push_back(entry.get<std::string>());
  for (const Json& entry : list(status, "leftOut"))
    view.problems.push_back(text(entry, "what") + ": " + text(entry, "why"));
  for (const Json& entry : list(at(status, "change"), "waitingFor"))
    if (entry.is_string()) view.problems.push_back("change: " + entry.get<std::string>());
  for (const Json& entry : list(at(status, "change"), "taken"))
    view.problems.push_back("change: " + text(entry, "namespace") + "/" + text(entry, "pod") + "/" +
                            text(entry, "container") + " lost its share of " + text(entry, "device") + " by force (" +
                            text(entry, "text") + "): delete the pod");
  const Json& mps = at(status, "mps");
  if (truth(mps, "needed") && !truth(mps, "connected")) view.problems.push_back(text(mps, "problem"));
  const Json& kubernetes = at(status, "kubernetes");
  if (text(kubernetes, "state") == "waiting") view.problems.push_back("Kubernetes: " + text(kubernetes, "reason"));
  if (const std::string cdi = text(status, "cdiProblem"); !cdi.empty()) view.problems.push_back("CDI specs: " + cdi);
}

}  // namespace

Result<View> make_view(std::string_view status_json, std::string_view kubelet_json) {
  const Json status = Json::parse(status_json, nullptr, false);
  if (!status.is_object()) return fail(Kind::kInvalid, "the status is not a JSON object: " + in_quotes(status_json));
  if (const std::string error = text(status, "error"); !error.empty()) return fail(Kind::kUnavailable, error);
  const Json kubelet = kubelet_json.empty() ? Json::object() : Json::parse(kubelet_json, nullptr, false);

  View view;
  put_head(view, status);
  put_promises(view, status);
  const auto containers = containers_of(kubelet);
  for (const Json& json : list(status, "devices")) {
    Device device = read_device(json);
    put_tenants(device, json, list(status, "grants"), containers);
    view.devices.push_back(std::move(device));
  }
  put_pods(view, kubelet);
  return view;
}

}  // namespace tranche::view
