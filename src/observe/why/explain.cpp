#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "base/problem.h"
#include "base/text.h"
#include "dra/claims_shown.h"
#include "observe/view/view.h"
#include "observe/why/why.h"

namespace tranche::why {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShortestUuid = 8;  // of the beginning of a UUID
constexpr std::size_t kShortestTypo = 3;  // everything resembles less

std::string holder_of(const Json& grant) {
  return text_at(grant, "namespace") + "/" + text_at(grant, "pod") + "/" + text_at(grant, "container");
}

std::string pod_of(const std::string& holder) {
  return holder.substr(0, holder.rfind('/'));
}

// "GPU 0", "MIG device 0:1"; that of a device which is no longer planned is its UUID.
std::string name_of(const Json& device) {
  const std::string index = text_at(device, "index");
  if (index.empty()) return text_at(device, "uuid");
  return (index.find(':') == std::string::npos ? "GPU " : "MIG device ") + index;
}

// Whether `name` is a word of its own in `text`: "GPU 1" is not in "GPU 12".
bool names(std::string_view text, std::string_view name) {
  if (name.empty()) return false;
  for (auto at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const auto end = at + name.size();
    const auto joins = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '_'; };
    if ((at == 0 || !joins(text[at - 1])) && (end == text.size() || !joins(text[end]))) return true;
  }
  return false;
}

class Status {
 public:
  Status(const Json& json, WallTime now)
      : json_(json), now_ms_(std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count()) {}

  std::vector<Explanation> find(std::string_view name) const {
    std::vector<Explanation> found;
    if (name.empty()) return found;
    for (const Json& device : list_at(json_, "devices"))
      for (const Json& slot : list_at(device, "slots"))
        if (text_at(slot, "id") == name && name != text_at(device, "uuid")) found.push_back(slot_of(device, slot));
    if (found.empty()) add_former_slot(found, name);
    if (!found.empty()) return found;
    for (const Json& device : list_at(json_, "devices"))
      if (is_device(device, name)) found.push_back(device_of(device));
    if (found.empty()) add_left_out(found, name);
    if (!found.empty()) return found;
    add_claim(found, name);
    if (found.empty()) add_claimed_gpu(found, name);
    if (!found.empty()) return found;
    for (const auto& pod : pods())
      if (is_pod(pod, name)) found.push_back(pod_named(pod, name));
    return found;
  }

  Error not_found(std::string_view name) const {
    constexpr std::size_t kShown = 8;
    const auto pods_here = pods();
    std::vector<std::string> shown, devices, known;
    for (const auto& pod : pods_here) {
      known.insert(known.end(), {pod, pod.substr(pod.find('/') + 1)});
      if (shown.size() < kShown) shown.push_back(pod);
    }
    if (pods_here.size() > kShown) shown.push_back(fmt::format("and {} more", pods_here.size() - kShown));
    for (const Json& device : list_at(json_, "devices")) {
      devices.push_back(text_at(device, "index"));
      known.push_back(text_at(device, "uuid"));
      for (const Json& slot : list_at(device, "slots")) known.push_back(text_at(slot, "id"));
    }
    for (const auto& part : dra::claims_shown(json_)) known.insert(known.end(), {part.claim, part.device, part.gpu});
    const std::string nearest = name.size() < kShortestTypo ? "" : did_you_mean(name, {known.begin(), known.end()});
    std::string what = "this node agent reports no pod, claim, GPU or slot " + in_quotes(name);
    what += nearest.empty() ? "." : ". Did you mean " + nearest + "?";
    what += fmt::format(
        " GPUs: {}. Pods: {}. The agent does not know a pod that has ended or never got a share here: `kubectl "
        "describe pod` shows why it failed, is Pending or was refused",
        devices.empty() ? "none" : join(devices, ", "), shown.empty() ? "none" : join(shown, ", "));
    return {Kind::kNotFound, std::move(what), {}, 0};
  }

 private:
  // Of pods that hold something here, and of those of which something is remembered.
  std::set<std::string> pods() const {
    std::set<std::string> all;
    const auto add = [&all](const std::string& holder) {
      if (std::ranges::count(holder, '/') == 2) all.insert(pod_of(holder));
    };
    for (const Json& grant : list_at(json_, "grants")) add(holder_of(grant));
    for (const Json& act : list_at(member_at(json_, "guard"), "acts")) add(text_at(act, "holder"));
    for (const Json& fault : list_at(json_, "faults")) {
      add(text_at(member_at(fault, "culprit"), "holder"));
      for (const Json& victim : list_at(fault, "victims")) add(text_at(victim, "holder"));
    }
    return all;
  }

  static bool is_pod(const std::string& pod, std::string_view name) {
    return name == pod || name.starts_with(pod + "/") || name == std::string_view(pod).substr(pod.find('/') + 1);
  }

  static bool is_device(const Json& device, std::string_view name) {
    const std::string uuid = text_at(device, "uuid"), index = text_at(device, "index");
    return name == uuid || name == index || name == name_of(device) || name == text_at(device, "pool") ||
           (name.size() >= kShortestUuid && uuid.starts_with(name)) || index.starts_with(std::string(name) + ":");
  }

  std::uint64_t ago(const Json& dated) const {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(now_ms_ - number_at(dated, "atMs").value_or(now_ms_), 0));
  }

  // --- what is wrong with a device, with the remedy

  void add_health(std::vector<Cause>& causes, const Json& device) const {
    const std::uint64_t ms = count_at(device, "unhealthyMs");
    const std::string cause = text_at(device, "cause");
    if (!truth_at(device, "healthy"))
      causes.push_back({fmt::format("{} is unhealthy{}: {}. Its slots get no new pods", name_of(device),
                                    ms == 0 ? "" : " for " + lasted(ms), text_at(device, "reason")),
                        remedy_of(cause, text_at(device, "reason")), true});
    if (cause != "pool") add_pool(causes, device);
  }

  void add_pool(std::vector<Cause>& causes, const Json& device) const {
    const std::string pool = text_at(device, "pool"), state = text_at(device, "poolState");
    if (pool.empty()) return;
    const Json& mps = member_at(json_, "mps");
    if (!truth_at(mps, "connected")) {
      causes.push_back(
          {"the node agent has no answer from `tranche mps`, which owns the MPS daemons: " + text_at(mps, "problem"),
           "see whether its pod runs, and read its log", true});
    } else if (state != "serving") {
      causes.push_back({fmt::format("MPS pool {} is {}: CUDA programs cannot start on {} until it serves", pool,
                                    state.empty() ? "not reported" : state, name_of(device)),
                        state == "wedged" || state == "given-up" || state == "backing-off"
                            ? "read the log of `tranche mps` on this node"
                            : "wait; if this lasts longer than a minute, read the log of `tranche mps`",
                        true});
    }
  }

  void add_change(std::vector<Cause>& causes, std::string_view holder, const std::string& uuid) const {
    for (const Json& step : list_at(member_at(json_, "change"), "steps")) {
      if (text_at(step, "state") != "waiting") continue;
      const Json& devices = list_at(step, "devices");
      const bool concerns = holder.empty() ? std::ranges::find(devices, Json(uuid)) != devices.end()
                                           : names(text_at(step, "waitsFor"), pod_of(std::string(holder)));
      if (!concerns) continue;
      causes.push_back({"a configuration change waits: " + text_at(step, "text"),
                        "the change goes on when the pods that it names have ended: delete them, or wait", true});
    }
  }

  void add_resource(std::vector<Cause>& causes, const std::string& name) const {
    const Json& resource = entry_at(json_, "resources", "name", name);
    if (resource.is_object() && !truth_at(resource, "registered"))
      causes.push_back({fmt::format("kubelet does not know {}: {}", name, text_at(resource, "problem")),
                        "`tranche check` on the node, finding kubelet.plugins", true});
  }

  // --- a device

  Explanation device_of(const Json& device) const {
    Explanation all{.kind = "device", .subject = name_of(device)};
    const std::string uuid = text_at(device, "uuid"), pool = text_at(device, "pool");
    if (all.subject != uuid) all.subject += " (" + uuid + ")";
    std::uint64_t held = 0;
    std::vector<std::string> holders;
    for (const Json& slot : list_at(device, "slots")) {
      const std::string holder = text_at(slot, "holder");
      if (holder.empty()) continue;
      ++held;
      if (std::ranges::find(holders, holder) == holders.end()) holders.push_back(holder);
    }
    const std::uint64_t slots = list_at(device, "slots").size();
    all.causes.push_back({fmt::format("{} as {}, shared by {}: {} of {} held{}", text_at(device, "name"),
                                      text_at(device, "resource"), text_at(device, "sharing"), held,
                                      count_text(slots, "slot"), holders.empty() ? "" : " by " + join(holders, ", "))});
    add_health(all.causes, device);
    add_resource(all.causes, text_at(device, "resource"));
    add_change(all.causes, "", uuid);
    add_texts(all.causes, uuid, name_of(device));
    add_foreign_processes(all.causes, uuid);
    add_mig(all.causes, text_at(device, "index"), uuid);
    add_events(
        all.events, [&](const Json& act) { return text_at(act, "device") == uuid; },
        [&](const Json& fault) { return !pool.empty() && text_at(fault, "pool") == pool; });
    const bool waits = std::ranges::any_of(all.causes, &Cause::is_fault);
    all.state = !truth_at(device, "healthy") ? "unhealthy"
                : waits                      ? "healthy, with findings"
                : held == slots              ? "healthy, full"
                                             : fmt::format("healthy, {} free", count_text(slots - held, "slot"));
    return all;
  }

  // Sentences of the plan and the configuration that name it.
  void add_texts(std::vector<Cause>& causes, const std::string& uuid, const std::string& name) const {
    const auto concerns = [&](const std::string& text) { return names(text, uuid) || names(text, name); };
    for (const auto& problem : texts_at(json_, "planProblems"))
      if (concerns(problem))
        causes.push_back(
            {"the plan has a problem: " + problem, "`tranche check --config FILE` names line and remedy", true});
    for (const Json& left : list_at(json_, "leftOut"))
      if (concerns(text_at(left, "what")))
        causes.push_back({"the plan leaves out " + text_at(left, "what") + ": " + text_at(left, "why"), "", true});
    for (const auto& note : texts_at(json_, "notes"))
      if (concerns(note)) causes.push_back({note});
  }

  void add_foreign_processes(std::vector<Cause>& causes, const std::string& uuid) const {
    for (const Json& process : list_at(member_at(json_, "guard"), "foreignProcesses")) {
      if (text_at(process, "device") != uuid) continue;
      const auto pid = number_at(process, "pid");
      causes.push_back({pid ? fmt::format("process {} ({}) uses it beside MPS, {} MiB, without limits", *pid,
                                          text_at(process, "name"), count_at(process, "memoryMiB"))
                            : "a process uses it beside MPS, without limits",
                        "end the process, or let the guard do that: guard.foreignProcesses: terminate", true});
    }
  }

  void add_mig(std::vector<Cause>& causes, const std::string& index, const std::string& uuid) const {
    for (const Json& gpu : list_at(member_at(json_, "mig"), "gpus")) {
      const std::string of = text_at(gpu, "index");
      if (text_at(gpu, "uuid") != uuid && of != index && !index.starts_with(of + ":")) continue;
      if (text_at(gpu, "now") == text_at(gpu, "target") && text_at(gpu, "waitsFor").empty()) continue;
      causes.push_back(
          {fmt::format("the MIG manager changes GPU {} from {} to {}{}", of, text_at(gpu, "now"),
                       text_at(gpu, "target"),
                       text_at(gpu, "waitsFor").empty() ? "" : ", and waits for " + text_at(gpu, "waitsFor")),
           "the change goes on when those pods have ended: docs/guide/mig.md", true});
    }
  }

  // A device that is not offered: by UUID, by index or by what the plan calls it.
  void add_left_out(std::vector<Explanation>& found, std::string_view name) const {
    for (const Json& left : list_at(json_, "leftOut")) {
      const std::string what = text_at(left, "what");
      const bool number = name.find_first_not_of("0123456789:") == std::string_view::npos;
      if (name != what && !(name.size() >= kShortestUuid && names(what, name)) &&
          !(number && (names(what, "GPU " + std::string(name)) || names(what, "MIG device " + std::string(name)))))
        continue;
      found.push_back({.kind = "device", .subject = what, .state = "not offered"});
      found.back().causes.push_back({text_at(left, "why"), "", true});
    }
  }

  // --- a claim

  static Cause cause_of(const dra::ShownPart& part, const std::string& claim = "") {
    std::string what =
        fmt::format("{}request {} has {} of {} ({}){}", claim.empty() ? "" : "claim " + claim + ": ", part.request,
                    part.limits, part.device, part.gpu, part.holder.empty() ? "" : ", held by pod " + part.holder);
    if (part.used_mib) what += fmt::format("; uses {} MiB", *part.used_mib);
    if (part.enforced == "yes") what += "; its limits are enforced";
    if (part.enforced == "partly") what += "; each process is limited, and their sum is not: " + part.why;
    if (part.enforced == "no") what += "; its limits are not enforced: " + part.why;
    const bool fault = part.enforced == "no" || part.enforced == "partly";
    return {what, fault ? "read the logs of `tranche node` and `tranche mps` on this node" : "", fault};
  }

  void add_serving(Explanation& all) const {
    for (auto& fault : dra::serving_faults(json_)) all.causes.push_back({fault.what, fault.remedy, true});
  }

  // By name, with or without its namespace, or by UID.
  void add_claim(std::vector<Explanation>& found, std::string_view name) const {
    std::map<std::string, Explanation> by_uid;
    for (const auto& part : dra::claims_shown(json_)) {
      if (name != part.claim && name != part.uid &&
          name != std::string_view(part.claim).substr(part.claim.find('/') + 1))
        continue;
      auto& all = by_uid.try_emplace(part.uid, Explanation{.kind = "claim", .subject = part.claim}).first->second;
      all.causes.push_back(cause_of(part));
    }
    for (auto& [uid, all] : by_uid) {
      add_serving(all);
      all.state = std::ranges::any_of(all.causes, &Cause::is_fault) ? "prepared, with findings" : "prepared";
      found.push_back(std::move(all));
    }
  }

  // A GPU that is offered to claims: by UUID, by index or by the name of one of its devices.
  void add_claimed_gpu(std::vector<Explanation>& found, std::string_view name) const {
    Explanation all{.kind = "device", .subject = {}};
    std::uint64_t cores = 0, memory = 0, shares = 0;
    bool whole = false;
    for (const auto& part : dra::claims_shown(json_)) {
      const std::string index = part.device.substr(0, part.device.find('-', 4));  // "gpu-0"
      const bool is_it = name == part.device || name == part.gpu || name == index ||
                         "gpu-" + std::string(name) == index ||
                         (name.size() >= kShortestUuid && part.gpu.starts_with(name));
      if (!is_it) continue;
      all.subject = fmt::format("{} ({})", index, part.gpu);
      all.causes.push_back(cause_of(part, part.claim));
      whole = whole || part.kind == "gpu";
      if (part.kind != "shared") continue;
      ++shares;
      cores += part.cores;
      memory += part.limit_mib;
    }
    if (all.causes.empty()) return;
    add_serving(all);
    all.state = whole ? "held as a whole by a claim"
                      : fmt::format("{} of claims: {} MiB and {} cores", count_text(shares, "share"), memory, cores);
    found.push_back(std::move(all));
  }

  // --- a slot

  Explanation slot_of(const Json& device, const Json& slot) const {
    Explanation all{.kind = "slot", .subject = text_at(slot, "id")};
    const std::string holder = text_at(slot, "holder");
    all.causes.push_back(
        {fmt::format("a slot of {} ({}) as {}: {} MiB{}", name_of(device), text_at(device, "uuid"),
                     text_at(device, "resource"), count_at(device, "slotMemoryMiB"),
                     count_at(device, "slotSms") == 0 ? "" : fmt::format(", {} SMs", count_at(device, "slotSms")))});
    if (!holder.empty()) all.causes.push_back({"kubelet reports that " + holder + " holds it"});
    add_health(all.causes, device);
    add_resource(all.causes, text_at(device, "resource"));
    add_change(all.causes, "", text_at(device, "uuid"));
    all.state = !holder.empty()                ? "held by " + holder
                : !truth_at(device, "healthy") ? "unhealthy: no pod gets it"
                : all.causes.back().is_fault   ? "withheld"
                                               : "free";
    return all;
  }

  // One that a container holds though the plan has it no more.
  void add_former_slot(std::vector<Explanation>& found, std::string_view name) const {
    for (const Json& grant : list_at(json_, "grants")) {
      const Json& slots = list_at(grant, "slots");
      if (name.find("::") == std::string_view::npos || std::ranges::find(slots, Json(name)) == slots.end()) continue;
      Explanation all{.kind = "slot", .subject = std::string(name), .state = "withheld, held by " + holder_of(grant)};
      all.causes.push_back(
          {"the configuration in effect has this slot no more; the container that holds it keeps it, and "
           "nothing gets it afterwards"});
      add_change(all.causes, holder_of(grant), "");
      found.push_back(std::move(all));
    }
  }

  // --- a pod

  Explanation pod_named(const std::string& pod, std::string_view name) const {
    Explanation all{.kind = "pod", .subject = pod};
    const bool one = std::ranges::count(name, '/') == 2;
    if (one) all.subject = name;
    const auto is_it = [&](const std::string& holder) { return one ? holder == name : pod_of(holder) == pod; };
    std::uint64_t slots = 0, claims = 0;
    bool known = false;
    std::set<std::string> ids;  // of its grants
    for (const Json& grant : list_at(json_, "grants")) {
      if (!is_it(holder_of(grant))) continue;
      known = true;
      ids.insert(text_at(grant, "grant"));
      claims += text_at(grant, "claim").empty() ? 0 : 1;
      slots += add_grant(all.causes, grant);
      add_protection(all.causes, grant);
      if (truth_at(grant, "deleting")) all.causes.push_back({"the pod is being deleted"});
    }
    ids.erase("");  // of a container without MPS
    for (const Json& process : list_at(member_at(json_, "guard"), "stopped"))
      if (is_it(text_at(process, "holder")))
        all.causes.push_back({fmt::format("the guard has stopped its process {} for {}, and has not yet ended or "
                                          "continued it",
                                          count_at(process, "pid"), lasted(ago(process))),
                              "wait: the guard ends the process, or continues it when it is within its limit", true});
    if (slots + claims > 0 && !ids.empty()) add_promises(all.causes);
    add_events(
        all.events,
        [&](const Json& act) { return is_it(text_at(act, "holder")) || ids.contains(text_at(act, "grant")); },
        [&](const Json& fault) {
          const Json& victims = list_at(fault, "victims");
          return is_it(text_at(member_at(fault, "culprit"), "holder")) ||
                 std::ranges::any_of(victims, [&](const Json& v) { return is_it(text_at(v, "holder")); });
        });
    if (!known) {
      all.state = "holds nothing on this node";
      all.causes.push_back({"kubelet reports no slot of it: it has ended, or was refused or moved",
                            "`kubectl describe pod` shows its state and events", false});
    } else {
      std::vector<std::string> holds;
      if (slots > 0) holds.push_back(count_text(slots, "slot"));
      if (claims > 0) holds.push_back(count_text(claims, "share") + " by claims");
      all.state = fmt::format("holds {}{}", holds.empty() ? "nothing any more" : join(holds, " and "),
                              std::ranges::any_of(all.causes, &Cause::is_fault) ? ", with findings" : "");
    }
    return all;
  }

  std::uint64_t add_grant(std::vector<Cause>& causes, const Json& grant) const {
    const std::string container = text_at(grant, "container"), id = text_at(grant, "grant");
    std::uint64_t all = 0;
    if (const std::string claim = text_at(grant, "claim"); !claim.empty()) {
      for (const auto& part : dra::claims_shown(json_))
        if (part.grant == id) causes.push_back(cause_of(part, claim));
      return 0;
    }
    for (const Json& part : list_at(grant, "devices")) {
      const Json& device = entry_at(json_, "devices", "uuid", text_at(part, "uuid"));
      const auto held = view::read_tenant(grant, part, device);
      all += held.slots;
      causes.push_back(
          {fmt::format("container {} holds {} of {} on {}{}: {}{}", container, count_text(held.slots, "slot"),
                       held.resource, device.is_object() ? name_of(device) : held.device,
                       device.is_object() ? " (" + held.device + ")" : "", limits_text(held), use_text(held))});
      if (!device.is_object()) continue;
      add_limit_findings(causes, device, id, held.limit_mib);
      add_health(causes, device);
    }
    add_change(causes, holder_of(grant), "");
    return all;
  }

  // Whether the death of its clients hurts their neighbours. Seen from outside, they have no process ids.
  static void add_protection(std::vector<Cause>& causes, const Json& grant) {
    std::uint64_t held = 0;
    for (const Json& client : list_at(grant, "protection")) {
      const std::string state = text_at(client, "protected");
      const auto pid = number_at(client, "pid");
      held += state == "yes" ? 1 : 0;
      if (state == "yes") continue;
      causes.push_back(
          {fmt::format("{} {} ({}): its death can end its neighbours",
                       pid ? fmt::format("client {}", *pid) : "a client",
                       state == "starting" ? "is not completely held yet" : "is not held", text_at(client, "why")),
           state == "starting" ? "" : "docs/guide/stop-and-change.md#a-pods-end", state != "starting"});
    }
    if (held > 0)
      causes.push_back({fmt::format("the keeper holds {} of container {} through {} death", count_text(held, "client"),
                                    text_at(grant, "container"), held == 1 ? "its" : "their")});
  }

  static std::string limits_text(const view::Tenant& held) {
    std::vector<std::string> parts;
    if (held.limit_mib > 0) parts.push_back(fmt::format("{} MiB", held.limit_mib));
    if (held.sms > 0)
      parts.push_back(fmt::format("{} SMs{}", held.sms, held.threads.empty() ? "" : " (" + held.threads + " %)"));
    return parts.empty() ? "without limits" : "limits " + join(parts, ", ");
  }

  // Seen from outside, the processes are not named, and their memory may be.
  static std::string use_text(const view::Tenant& held) {
    if (held.processes == 0u) return "; no CUDA process runs";
    return (held.used_mib ? fmt::format("; uses {} MiB", *held.used_mib) : "") +
           (held.processes ? " in " + count_text(*held.processes, "process") : "");
  }

  void add_limit_findings(std::vector<Cause>& causes, const Json& device, const std::string& grant,
                          std::uint64_t limit) const {
    if (text_at(device, "sharing") == "time-slicing" && list_at(device, "slots").size() > 1)
      causes.push_back({name_of(device) + " is shared by time-slicing, which limits neither memory nor SMs",
                        "share it by MPS where tenants need limits: docs/guide/share-sizes.md", false});
    const Json& guard = member_at(json_, "guard");
    if (limit == 0 || grant.empty() || text_at(guard, "state") != "on") return;
    const Json& limits = list_at(guard, "limits");
    const bool known = std::ranges::any_of(limits, [&](const Json& each) {
      return text_at(each, "grant") == grant && text_at(each, "device") == text_at(device, "uuid");
    });
    if (!known)
      causes.push_back(
          {"the guard does not enforce the memory limit of this container yet: it has not learned of the "
           "grant",
           "wait some seconds; then read the agent's log for this grant: " + grant, true});
  }

  // Of the node, for its MPS tenants.
  void add_promises(std::vector<Cause>& causes) const {
    for (const Json& row : list_at(json_, "inForce")) {
      const std::string state = text_at(row, "state");
      if (state != "no" && state != "partly") continue;
      causes.push_back(
          {fmt::format("not fully enforced on this node: {} ({}{}): {}", text_at(row, "promise"), state,
                       text_at(row, "by").empty() ? "" : ", by " + text_at(row, "by"), text_at(row, "why")),
           state == "no" ? "docs/guide/security.md says what enforces it" : "", state == "no"});
    }
  }

  // --- what happened

  template <class OfAct, class OfFault>
  void add_events(std::vector<Event>& events, OfAct of_act, OfFault of_fault) const {
    for (const Json& act : list_at(member_at(json_, "guard"), "acts")) {
      if (!of_act(act)) continue;
      const auto pid = number_at(act, "pid");
      std::string what = fmt::format("guard: {}{} ({}): {} of {} MiB held, policy {}", text_at(act, "what"),
                                     pid ? fmt::format(" process {}", *pid) : "", text_at(act, "outcome"),
                                     count_at(act, "heldMiB"), count_at(act, "limitMiB"), text_at(act, "policy"));
      if (const std::string holder = text_at(act, "holder"); !holder.empty()) what += ", " + holder;
      if (const std::string note = text_at(act, "note"); !note.empty()) what += "; " + note;
      events.push_back({ago(act), std::move(what)});
    }
    for (const Json& fault : list_at(json_, "faults")) {
      if (!of_fault(fault)) continue;
      const std::string culprit = text_at(member_at(fault, "culprit"), "holder");
      std::vector<std::string> victims;
      for (const Json& victim : list_at(fault, "victims"))
        victims.push_back(text_at(victim, "holder").empty() ? "an unknown process" : text_at(victim, "holder"));
      events.push_back(
          {ago(fault), fmt::format("fault ({}) in pool {}, caused by {}{}", text_at(fault, "kind"),
                                   text_at(fault, "pool"), culprit.empty() ? "an unknown process" : culprit,
                                   victims.empty() ? "" : "; ended " + join(victims, ", "))});
    }
    std::ranges::stable_sort(events, {}, &Event::ago_ms);
  }

  const Json& json_;
  std::int64_t now_ms_;
};

}  // namespace

std::string remedy_of(std::string_view cause, std::string_view reason) {
  const bool fell_off_the_bus = reason.starts_with("XID 79 ");  // data/xids.yaml
  if (cause == "lost" || (cause == "xid" && fell_off_the_bus))
    return "drain the node and reboot it; replace the GPU if the fault comes back";
  if (cause == "xid") return "wait for the quiet period; replace the GPU if this repeats";
  if (cause == "reset") return "delete its pods and reset the GPU: docs/guide/troubleshoot.md#gpu-reset-by-steps";
  if (cause == "unwatched" || cause == "driver") return "read the driver's log (dmesg); reboot the node";
  if (cause == "node") return "create what is missing on the node";
  if (cause == "pool") return "read the log of `tranche mps` on this node";
  if (cause == "claims")
    return "wait until the pods of the claims have ended, or delete them: `tranche status --json`, dra.claims";
  if (cause == "mig") return "wait until the MIG manager has partitioned the GPU: `tranche status --json`, field mig";
  return "";
}

Result<std::vector<Explanation>> explain(std::string_view status_json, std::string_view name, WallTime now) {
  const Json json = json_of(status_json);
  if (!json.is_object()) return fail(Kind::kInvalid, "the answer is not a status document", "tranche node");
  const Status status(json, now);
  auto found = status.find(name);
  if (found.empty()) return std::unexpected(status.not_found(name));
  return found;
}

}  // namespace tranche::why
