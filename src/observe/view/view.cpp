#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "base/json_text.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "base/version.h"
#include "dra/claims_shown.h"
#include "observe/view/view.h"

namespace tranche::view {
namespace {

using Json = nlohmann::json;

std::optional<std::uint64_t> known_count(const Json& object, const char* key) {
  return member_at(object, key).is_number() ? std::optional(count_at(object, key)) : std::nullopt;
}

nlohmann::ordered_json known(const auto& figure) {
  return figure ? nlohmann::ordered_json(*figure) : nlohmann::ordered_json();
}

Device read_device(const Json& json) {
  Device device;
  device.index = text_at(json, "index");
  device.uuid = text_at(json, "uuid");
  device.name = text_at(json, "name");
  device.resource = text_at(json, "resource");
  device.sharing = text_at(json, "sharing");
  device.memory_mib = count_at(json, "memoryMiB");
  device.used_mib = known_count(json, "memoryUsedMiB");
  device.busy_percent = known_count(json, "utilization");
  device.sm_count = static_cast<std::uint32_t>(count_at(json, "smCount"));
  device.sm_percent = known_count(json, "smActive");
  device.healthy = truth_at(json, "healthy");
  device.reason = text_at(json, "reason");
  if (const std::uint64_t ms = count_at(json, "unhealthyMs"); ms > 0) device.reason += " (for " + lasted(ms) + ")";
  device.pool = text_at(json, "pool");
  device.pool_state = text_at(json, "poolState");
  device.slot_mib = count_at(json, "slotMemoryMiB");
  return device;
}

std::string claims_line(const Json& status) {
  const Json& dra = map_at(status, "dra");
  if (dra.empty()) return {};
  const Json& slices = map_at(dra, "slices");
  std::vector<std::string> gpus;  // indices, of MIG devices too
  for (const Json& gpu : list_at(dra, "gpus")) gpus.push_back(text_at(gpu, "index"));
  return fmt::format("claims: driver {}, of GPU {}, {} devices in ResourceSlices ({}), {} prepared",
                     text_at(dra, "driver").empty() ? text_at(slices, "driver") : text_at(dra, "driver"),
                     gpus.empty() ? "-" : join(gpus, ", "), count_at(slices, "devices"),
                     text_at(slices, "state").empty() ? "off" : text_at(slices, "state"),
                     list_at(dra, "claims").size());
}

void put_head(std::string& out, const Json& status, const Pen& pen) {
  const std::string node = text_at(status, "node");
  const Json& driver = member_at(status, "driver");
  const bool ready = text_at(driver, "state") == "ready";
  const std::string driver_text =
      visible_text(ready ? "driver " + text_at(driver, "version") : "no driver: " + text_at(driver, "reason"));
  const Json& config = member_at(status, "config");
  std::string config_text = text_at(config, "path").empty()
                                ? "built-in defaults"
                                : fmt::format("{} ({})", text_at(config, "path"), text_at(config, "inForce"));
  if (const auto by = text_at(config, "chosenBy"); !by.empty() && by != "file" && by != "defaults")
    config_text += ", chosen by " + by;
  out += fmt::format("{}  {}{}  config: {}\n", pen(kBold, "tranche"),
                     node.empty() ? "" : "node " + visible_text(node) + "  ",
                     ready ? driver_text : pen(kRed, driver_text), visible_text(config_text));
  std::vector<std::string> offered;
  bool known_to_kubelet = true;
  for (const Json& resource : list_at(status, "resources")) {
    const bool registered = truth_at(resource, "registered");
    known_to_kubelet = known_to_kubelet && registered;
    offered.push_back(fmt::format("{}: {} slots, {} healthy, {} held{}", text_at(resource, "name"),
                                  count_at(resource, "slots"), count_at(resource, "healthy"),
                                  count_at(resource, "allocated"),
                                  registered ? "" : "; not registered with kubelet: " + text_at(resource, "problem")));
  }
  if (const auto claims = claims_line(status); !claims.empty()) offered.push_back(claims);
  const std::string line = visible_text(offered.empty() ? "nothing advertised" : join(offered, " · "));
  out += (known_to_kubelet ? line : pen(kRed, line)) + "\n";
}

std::vector<std::string> problems_of(const Json& status) {
  std::vector<std::string> problems;
  for (const auto& texts : {texts_at(status, "planProblems"), texts_at(member_at(status, "config"), "problems"),
                            texts_at(member_at(status, "health"), "problems")})
    problems.insert(problems.end(), texts.begin(), texts.end());
  for (const Json& entry : list_at(status, "leftOut"))
    problems.push_back(text_at(entry, "what") + ": " + text_at(entry, "why"));
  for (const auto& step : texts_at(member_at(status, "change"), "waitingFor")) problems.push_back("change: " + step);
  const Json& mps = member_at(status, "mps");
  if (truth_at(mps, "needed") && !truth_at(mps, "connected")) problems.push_back(text_at(mps, "problem"));
  for (const auto& [part, program] : {std::pair("loop", "tranche node: "), std::pair("mps", "tranche mps: ")})
    if (const auto light = text_at(member_at(status, part), "cpuProblem"); !light.empty())
      problems.push_back(program + light);
  const Json& kubernetes = member_at(status, "kubernetes");
  if (text_at(kubernetes, "state") == "waiting") problems.push_back("Kubernetes: " + text_at(kubernetes, "reason"));
  if (const auto cdi = text_at(status, "cdiProblem"); !cdi.empty()) problems.push_back("CDI specs: " + cdi);
  for (const auto& fault : dra::serving_faults(status)) problems.push_back("claims: " + fault.what);
  return problems;
}

std::vector<std::string> notes_of(const Json& status) {
  auto notes = texts_at(status, "notes");
  if (const std::string version = text_at(status, "version"); !version.empty() && version != kVersion)
    notes.push_back(
        fmt::format("the node agent is version {} and this program {}: what only one of them knows is not shown",
                    version, kVersion));
  return notes;
}

std::vector<Promise> promises_of(const Json& status) {
  std::vector<Promise> promises;
  for (const Json& row : list_at(status, "inForce"))
    if (const std::string what = text_at(row, "promise"); !what.empty())
      promises.push_back({what, text_at(row, "state"), text_at(row, "by"), text_at(row, "why")});
  return promises;
}

constexpr std::array kColours{"36", "33", "35", "32", "34", "96", "93", "95"};
constexpr std::size_t kNameWidth = 24;  // a row of a tenant fits 80 columns
constexpr std::size_t kPromiseWidth = 36;
constexpr std::size_t kBarWidth = 40;  // most cells of one GPU's bar

std::string letter(std::size_t tenant, const Pen& pen) {
  const auto c = static_cast<char>(tenant < 26 ? 'a' + tenant : 'A' + tenant % 26);
  return pen(kColours[tenant % kColours.size()], std::string(1, c));
}

// One cell a slot; many slots are folded so that the bar stays readable, a folded cell showing its first holder.
std::string slot_bar(const Device& device, const Pen& pen) {
  const std::size_t fold = (device.slots.size() + kBarWidth - 1) / kBarWidth;
  std::string bar;
  for (std::size_t i = 0; i < device.slots.size(); i += std::max<std::size_t>(1, fold)) {
    const auto cell = std::span(device.slots).subspan(i, std::min(fold, device.slots.size() - i));
    const auto first = std::ranges::find_if(cell, [](int tenant) { return tenant >= 0; });
    bar += first == cell.end() ? pen(kDim, "·") : letter(static_cast<std::size_t>(*first), pen);
  }
  return bar;
}

std::string fill_bar(std::uint64_t used, std::uint64_t limit, std::size_t width) {
  if (limit == 0) return std::string();
  const auto filled = std::min<std::size_t>(width, static_cast<std::size_t>((used * width + limit - 1) / limit));
  std::string bar;
  for (std::size_t i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
  return bar;
}

std::string clipped(std::string_view bytes, std::size_t width) {
  std::string text = visible_text(bytes);
  if (text.size() > width) text = std::string(first_bytes(text, width - 1)) + "~";
  return text;
}

std::string state_of(const Device& device, const Pen& pen) {
  const std::string state = device.healthy ? pen(kGreen, "healthy") : pen(kRed, "unhealthy");
  return state + (device.pool_state.empty() ? "" : ", MPS " + visible_text(device.pool_state));
}

std::string slots_of(const Device& device, const Pen& pen) {
  return fmt::format("[{}] {}/{} slots", slot_bar(device, pen), device.held(), device.slots.size());
}

void put_device(std::string& out, const Device& device, const Pen& pen) {
  out += fmt::format("{}  {}  {}\n", pen(kBold, fmt::format("GPU {:<3} {}", device.index, visible_text(device.name))),
                     state_of(device, pen), pen(kDim, visible_text(device.uuid)));
  out += fmt::format("  {}   memory {} of {} MiB used   {} SMs{}\n", slots_of(device, pen), device.used_mib.value_or(0),
                     device.memory_mib, device.sm_count,
                     device.sm_percent ? fmt::format(", {} % active", *device.sm_percent) : "");
  if (!device.healthy) out += "  " + pen(kRed, visible_text(device.reason)) + "\n";
  for (std::size_t i = 0; i < device.tenants.size(); ++i) {
    const Tenant& tenant = device.tenants[i];
    std::string memory = tenant.limit_mib == 0 ? "no limit" : fmt::format("{:>6} MiB limit", tenant.limit_mib);
    if (tenant.used_mib && tenant.limit_mib > 0 && tenant.processes != 0u)
      memory = fmt::format("{} {:>6} of {:>6} MiB", fill_bar(*tenant.used_mib, tenant.limit_mib, 10), *tenant.used_mib,
                           tenant.limit_mib);
    out += fmt::format("   {} {:<{}} {:>2} {:<5}  {}{}\n", letter(i, pen), clipped(tenant.name, kNameWidth), kNameWidth,
                       tenant.slots, tenant.slots == 1 ? "slot" : "slots", memory,
                       tenant.sms > 0 ? fmt::format("  {:>3} SMs", tenant.sms) : "");
  }
}

void put_folded(std::string& out, const Device& device, const Pen& pen) {
  out += fmt::format("{} {}  {} of {} MiB  {}{}\n", pen(kBold, "GPU " + device.index), slots_of(device, pen),
                     device.used_mib.value_or(0), device.memory_mib, state_of(device, pen),
                     device.healthy ? "" : ": " + visible_text(device.reason));
  for (std::size_t i = 0; i < device.tenants.size(); ++i)
    out += fmt::format("{}{} {}", i == 0 ? "   " : ", ", letter(i, pen), visible_text(device.tenants[i].name));
  if (!device.tenants.empty()) out += "\n";
}

void put_claims(std::string& out, const std::vector<dra::ShownPart>& claims, const Pen& pen) {
  if (claims.empty()) return;
  out += pen(kBold, "Claims") + "\n";
  for (const auto& claim : claims) {
    std::string state;
    if (claim.enforced == "yes") state = pen(kGreen, "enforced");
    if (claim.enforced == "partly") state = pen(kYellow, "partly enforced");
    if (claim.enforced == "no") state = pen(kRed, "not enforced");
    if (!claim.why.empty()) state += ": " + visible_text(claim.why);
    if (claim.used_mib) state += fmt::format("{}uses {} MiB", state.empty() ? "" : "; ", *claim.used_mib);
    out += fmt::format("   {:<{}} {:<13} {:<28}  {}\n", clipped(claim.claim + "/" + claim.request, kNameWidth),
                       kNameWidth, clipped(claim.device, 13), clipped(claim.limits, 28), state);
    if (!claim.holder.empty()) out += fmt::format("     {}\n", pen(kDim, "held by pod " + visible_text(claim.holder)));
  }
}

// Those of the kubelet double that do not run.
void put_pods(std::string& out, const Json& kubelet, const Pen& pen) {
  std::string waiting, ended;
  for (const Json& pod : list_at(kubelet, "pods")) {
    const std::string phase = text_at(pod, "phase");
    if (phase == "Running") continue;
    std::string reason = text_at(pod, text_at(pod, "message").empty() ? "reason" : "message");
    if (phase != "Pending") {
      for (const Json& container : list_at(pod, "containers"))  // the last report of the program itself is more exact
        if (const std::string said = text_at(member_at(container, "last_output_json"), "error"); !said.empty())
          reason = said;
      if (reason == "CUDA_ERROR_OUT_OF_MEMORY") reason += ": beyond its share";
      reason = reason.empty() ? phase : phase + ": " + reason;
    }
    (phase == "Pending" ? waiting : ended) +=
        fmt::format("   {:<{}} {}\n", clipped(text_at(pod, "namespace") + "/" + text_at(pod, "name"), kNameWidth),
                    kNameWidth, visible_text(reason));
  }
  if (!waiting.empty()) out += pen(kBold, "Waiting") + "\n" + waiting;
  if (!ended.empty()) out += pen(kBold, "Ended") + "\n" + ended;
}

// An unknown value of a different program counts as "no".
const char* colour_of(const std::string& state) {
  return state == "yes" ? kGreen : state == "partly" ? kYellow : kRed;
}

void put_promises(std::string& out, const std::vector<Promise>& promises, const Pen& pen) {
  if (promises.empty()) return;
  out += pen(kBold, "Enforced") + "\n";
  for (const Promise& promise : promises) {
    const std::string why = promise.why.empty() ? "" : (promise.by.empty() ? "" : "; ") + promise.why;
    out += fmt::format(
        "   {} {:<{}} {}{}\n", pen(colour_of(promise.state), fmt::format("{:<6}", visible_text(promise.state))),
        visible_text(promise.what), kPromiseWidth, pen(kDim, visible_text(promise.by)), visible_text(why));
  }
}

// The states of the promises, and what is not kept completely.
void put_kept(std::string& out, const std::vector<Promise>& promises, const Pen& pen) {
  if (promises.empty()) return;
  out += pen(kBold, "Enforced");
  const auto kept = std::ranges::count(promises, "yes", &Promise::state);
  out += fmt::format("  {} of {}", kept, promises.size());
  for (const Promise& promise : promises)
    if (promise.state != "yes")
      out += fmt::format("; {}: {}", visible_text(promise.what),
                         pen(colour_of(promise.state), visible_text(promise.state)));
  out += "\n";
}

}  // namespace

Tenant read_tenant(const Json& grant, const Json& part, const Json& device) {
  Tenant tenant;
  const std::string pod = text_at(grant, "namespace") + "/" + text_at(grant, "pod"), id = text_at(grant, "grant");
  tenant.full_name = pod + "/" + text_at(grant, "container");
  tenant.name = text_at(grant, "container") == "main" ? pod : tenant.full_name;
  tenant.device = text_at(part, "uuid");
  tenant.resource = text_at(grant, "resource");
  tenant.slots = static_cast<std::uint32_t>(count_at(part, "slots"));
  tenant.limit_mib = count_at(part, "memoryMiB");
  tenant.used_mib = known_count(part, "usedMiB");  // of a document that names no processes
  tenant.threads = text_at(part, "threads");
  tenant.sms = static_cast<std::uint32_t>(count_at(part, "sms"));
  // What its processes use, if the node agent knows whose a process is.
  if (id.empty() || !member_at(device, "processes").is_array()) return tenant;
  tenant.used_mib = 0;
  tenant.processes = 0;
  for (const Json& process : list_at(device, "processes")) {
    if (text_at(process, "grant") != id) continue;
    *tenant.used_mib += count_at(process, "memoryMiB");
    ++*tenant.processes;
  }
  return tenant;
}

Devices read_devices(const Json& status) {
  Devices all;
  const Json& devices = list_at(status, "devices");
  for (const Json& json : devices) all.planned.push_back(read_device(json));
  for (const Json& grant : list_at(status, "grants"))
    for (const Json& part : list_at(grant, "devices")) {
      const std::string uuid = text_at(part, "uuid"), resource = text_at(grant, "resource");
      std::size_t at = 0;
      while (at < devices.size() && (all.planned[at].uuid != uuid || all.planned[at].resource != resource)) ++at;
      if (at == devices.size()) {
        all.elsewhere.push_back(read_tenant(grant, part, Json()));
      } else {
        all.planned[at].tenants.push_back(read_tenant(grant, part, devices[at]));
      }
    }
  for (std::size_t at = 0; at < devices.size(); ++at) {
    Device& device = all.planned[at];
    std::map<std::string, int> index;
    for (std::size_t n = 0; n < device.tenants.size(); ++n) index[device.tenants[n].full_name] = static_cast<int>(n);
    for (const Json& slot : list_at(devices[at], "slots")) {
      const auto holder = index.find(text_at(slot, "holder"));
      device.slots.push_back(holder == index.end() ? -1 : holder->second);
    }
  }
  return all;
}

nlohmann::ordered_json to_json(const Device& device) {
  return {{"index", device.index},
          {"uuid", device.uuid},
          {"name", device.name},
          {"resource", device.resource},
          {"sharing", device.sharing},
          {"memoryMiB", device.memory_mib},
          {"usedMiB", known(device.used_mib)},
          {"busyPercent", known(device.busy_percent)},
          {"smActivePercent", known(device.sm_percent)},
          {"slots", device.slots.size()},
          {"held", device.held()},
          {"healthy", device.healthy},
          {"reason", device.reason}};
}

nlohmann::ordered_json to_json(const Tenant& tenant) {
  return {{"name", tenant.name},
          {"device", tenant.device},
          {"slots", tenant.slots},
          {"usedMiB", known(tenant.used_mib)},
          {"limitMiB", tenant.limit_mib},
          {"threads", tenant.threads},
          {"processes", known(tenant.processes)}};
}

Result<std::string> render(std::string_view status_json, std::string_view kubelet_json, const Look& look) {
  const Json status = json_of(status_json);
  if (!status.is_object()) return fail(Kind::kInvalid, "the status is not a JSON object: " + in_quotes(status_json));
  if (const std::string error = text_at(status, "error"); !error.empty()) return fail(Kind::kUnavailable, error);
  const Pen pen{look.colour};
  std::string out, devices, others;
  put_head(out, status, pen);
  for (const Device& device : read_devices(status).planned)
    (look.folded ? put_folded : put_device)(devices, device, pen);
  put_claims(others, dra::claims_shown(status), pen);
  put_pods(others, json_of(kubelet_json), pen);
  (look.folded ? put_kept : put_promises)(others, promises_of(status), pen);
  for (const auto& problem : problems_of(status)) others += pen(kRed, "! ") + visible_text(problem) + "\n";
  if (look.folded) return out + others + devices;
  out += "\n" + devices + (devices.empty() ? "" : "\n") + others;
  if (look.notes)
    for (const auto& note : notes_of(status)) out += pen(kDim, "note: " + visible_text(note)) + "\n";
  return out;
}

}  // namespace tranche::view
