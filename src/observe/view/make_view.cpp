#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "observe/view/view.h"

namespace tranche::view {
namespace {

using Json = nlohmann::json;

constexpr const char* kNothing = "nothing advertised";

// "namespace/pod/container" → its main process, as the kubelet double knows it.
std::map<std::string, std::uint64_t> containers_of(const Json& kubelet) {
  std::map<std::string, std::uint64_t> found;
  for (const Json& pod : list_at(kubelet, "pods"))
    for (const Json& container : list_at(pod, "containers"))
      found[text_at(pod, "namespace") + "/" + text_at(pod, "name") + "/" + text_at(container, "name")] =
          count_at(container, "pid");
  return found;
}

Device read_device(const Json& json) {
  Device device;
  device.index = text_at(json, "index");
  device.uuid = text_at(json, "uuid");
  device.name = text_at(json, "name");
  device.resource = text_at(json, "resource");
  device.memory_mib = count_at(json, "memoryMiB");
  device.used_mib = count_at(json, "memoryUsedMiB");
  device.sm_count = static_cast<std::uint32_t>(count_at(json, "smCount"));
  if (member_at(json, "smActive").is_number()) device.sm_percent = count_at(json, "smActive");
  device.healthy = truth_at(json, "healthy");
  device.reason = text_at(json, "reason");
  if (const std::uint64_t ms = count_at(json, "unhealthyMs"); ms > 0) device.reason += " (for " + lasted(ms) + ")";
  device.pool_state = text_at(json, "poolState");
  return device;
}

void put_tenants(Device& device, const Json& json, const Json& grants,
                 const std::map<std::string, std::uint64_t>& containers) {
  std::map<std::uint64_t, std::uint64_t> mib_of_process;
  std::map<std::string, std::uint64_t> mib_of_grant;
  for (const Json& p : list_at(json, "processes")) {
    mib_of_process[count_at(p, "pid")] = count_at(p, "memoryMiB");
    if (const std::string grant = text_at(p, "grant"); !grant.empty()) mib_of_grant[grant] += count_at(p, "memoryMiB");
  }
  std::map<std::string, int> index;
  for (const Json& grant : grants) {
    if (text_at(grant, "resource") != device.resource) continue;
    for (const Json& part : list_at(grant, "devices")) {
      if (text_at(part, "uuid") != device.uuid) continue;
      const std::string pod = text_at(grant, "namespace") + "/" + text_at(grant, "pod");
      const std::string key = pod + "/" + text_at(grant, "container");
      index[key] = static_cast<int>(device.tenants.size());
      Tenant& tenant = device.tenants.emplace_back();
      tenant.name = text_at(grant, "container") == "main" ? pod : key;
      tenant.slots = static_cast<std::uint32_t>(count_at(part, "slots"));
      tenant.limit_mib = count_at(part, "memoryMiB");
      tenant.sms = static_cast<std::uint32_t>(count_at(part, "sms"));
      if (const auto it = containers.find(key); it != containers.end() && it->second > 0)
        tenant.used_mib = mib_of_process[it->second];
      if (const auto it = mib_of_grant.find(text_at(grant, "grant")); it != mib_of_grant.end() && !tenant.used_mib)
        tenant.used_mib = it->second;
      if (!tenant.used_mib && member_at(part, "usedMiB").is_number()) tenant.used_mib = count_at(part, "usedMiB");
    }
  }
  for (const Json& slot : list_at(json, "slots")) {
    const auto it = index.find(text_at(slot, "holder"));
    device.slots.push_back(it == index.end() ? -1 : it->second);
  }
}

void put_pods(View& view, const Json& kubelet) {
  for (const Json& pod : list_at(kubelet, "pods")) {
    const std::string phase = text_at(pod, "phase");
    if (phase == "Running") continue;
    const std::string name = text_at(pod, "namespace") + "/" + text_at(pod, "name");
    std::string reason = text_at(pod, "message").empty() ? text_at(pod, "reason") : text_at(pod, "message");
    if (phase == "Pending") {
      view.waiting.push_back({name, reason});
      continue;
    }
    for (const Json& container : list_at(pod, "containers"))  // the last report of the program itself is more exact
      if (const std::string said = text_at(member_at(container, "last_output_json"), "error"); !said.empty())
        reason = said;
    if (reason == "CUDA_ERROR_OUT_OF_MEMORY") reason += ": beyond its share";
    view.ended.push_back({name, reason.empty() ? phase : phase + ": " + reason});
  }
}

void put_promises(View& view, const Json& status) {
  for (const Json& row : list_at(status, "inForce")) {
    if (const std::string what = text_at(row, "promise"); !what.empty())
      view.promises.push_back({what, text_at(row, "state"), text_at(row, "by"), text_at(row, "why")});
  }
}

void put_claims(View& view, const Json& status) {
  view.claims = dra::claims_shown(status);
  for (auto& fault : dra::serving_faults(status)) view.problems.push_back("claims: " + fault.what);
  const Json& dra = map_at(status, "dra");
  if (dra.empty()) return;
  const Json& slices = map_at(dra, "slices");
  std::vector<std::string> gpus;  // indices, of MIG devices too
  for (const Json& gpu : list_at(dra, "gpus")) gpus.push_back(text_at(gpu, "index"));
  std::string line =
      fmt::format("claims: driver {}, of GPU {}, {} devices in ResourceSlices ({}), {} prepared",
                  text_at(dra, "driver").empty() ? text_at(slices, "driver") : text_at(dra, "driver"),
                  gpus.empty() ? "-" : join(gpus, ", "), count_at(slices, "devices"),
                  text_at(slices, "state").empty() ? "off" : text_at(slices, "state"), list_at(dra, "claims").size());
  view.kubelet = view.kubelet == kNothing ? line : view.kubelet + " · " + line;
}

void put_head(View& view, const Json& status) {
  view.node = text_at(status, "node");
  const Json& driver = member_at(status, "driver");
  view.driver_ready = text_at(driver, "state") == "ready";
  view.driver = view.driver_ready ? "driver " + text_at(driver, "version") : "no driver: " + text_at(driver, "reason");
  const Json& config = member_at(status, "config");
  view.config = text_at(config, "path").empty()
                    ? "built-in defaults"
                    : fmt::format("{} ({})", text_at(config, "path"), text_at(config, "inForce"));
  if (const auto by = text_at(config, "chosenBy"); !by.empty() && by != "file" && by != "defaults")
    view.config += ", chosen by " + by;
  std::vector<std::string> resources;
  view.kubelet_ready = true;
  for (const Json& resource : list_at(status, "resources")) {
    const bool registered = truth_at(resource, "registered");
    view.kubelet_ready = view.kubelet_ready && registered;
    std::string line =
        fmt::format("{}: {} slots, {} healthy, {} held", text_at(resource, "name"), count_at(resource, "slots"),
                    count_at(resource, "healthy"), count_at(resource, "allocated"));
    if (!registered) line += "; not registered with kubelet: " + text_at(resource, "problem");
    resources.push_back(std::move(line));
  }
  view.kubelet = resources.empty() ? kNothing : join(resources, " · ");
  view.notes = texts_at(status, "notes");
  for (const auto& texts : {texts_at(status, "planProblems"), texts_at(config, "problems"),
                            texts_at(member_at(status, "health"), "problems")})
    view.problems.insert(view.problems.end(), texts.begin(), texts.end());
  for (const Json& entry : list_at(status, "leftOut"))
    view.problems.push_back(text_at(entry, "what") + ": " + text_at(entry, "why"));
  for (const auto& step : texts_at(member_at(status, "change"), "waitingFor"))
    view.problems.push_back("change: " + step);
  const Json& mps = member_at(status, "mps");
  if (truth_at(mps, "needed") && !truth_at(mps, "connected")) view.problems.push_back(text_at(mps, "problem"));
  for (const char* part : {"loop", "mps"})
    if (const std::string light = text_at(member_at(status, part), "cpuProblem"); !light.empty())
      view.problems.push_back((part[0] == 'l' ? "tranche node: " : "tranche mps: ") + light);
  const Json& kubernetes = member_at(status, "kubernetes");
  if (text_at(kubernetes, "state") == "waiting")
    view.problems.push_back("Kubernetes: " + text_at(kubernetes, "reason"));
  if (const std::string cdi = text_at(status, "cdiProblem"); !cdi.empty()) view.problems.push_back("CDI specs: " + cdi);
}

}  // namespace

Result<View> make_view(std::string_view status_json, std::string_view kubelet_json) {
  const Json status = json_of(status_json);
  if (!status.is_object()) return fail(Kind::kInvalid, "the status is not a JSON object: " + in_quotes(status_json));
  if (const std::string error = text_at(status, "error"); !error.empty()) return fail(Kind::kUnavailable, error);
  const Json kubelet = kubelet_json.empty() ? Json::object() : json_of(kubelet_json);

  View view;
  put_head(view, status);
  put_promises(view, status);
  put_claims(view, status);
  const auto containers = containers_of(kubelet);
  for (const Json& json : list_at(status, "devices")) {
    Device device = read_device(json);
    put_tenants(device, json, list_at(status, "grants"), containers);
    view.devices.push_back(std::move(device));
  }
  put_pods(view, kubelet);
  return view;
}

}  // namespace tranche::view
