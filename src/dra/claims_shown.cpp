#include "dra/claims_shown.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::dra {
namespace {

using Shown = nlohmann::json;

// Whether the pool's MPS daemon serves with its limits read back; else why not.
std::string why_pool_fails(const Shown& status, const std::string& pool) {
  const Shown& mps = map_at(status, "mps");
  if (!truth_at(mps, "connected")) return "tranche mps does not answer: " + text_at(mps, "problem");
  const Shown& row = entry_at(status, "inForce", "promise", "memory and SMs of a client");
  const std::string state = text_at(row, "state"), why = text_at(row, "why");
  return state == "no" || (state != "yes" && why.contains(pool + ":")) ? why : "";
}

std::string why_guard_fails(const Shown& status, const ShownPart& part) {
  const Shown& guard = map_at(status, "guard");
  if (text_at(guard, "state") != "on") return "the guard is off: " + text_at(guard, "reason");
  for (const Shown& limit : list_at(guard, "limits"))
    if (text_at(limit, "grant") == part.grant && text_at(limit, "device") == part.gpu) return {};
  return "the guard does not know the limit of this claim yet";
}

bool is_limited(const Shown& part) {
  return count_at(part, "memoryMiB") > 0 || count_at(part, "sms") > 0;
}

void judge(const Shown& status, const std::string& pool, ShownPart& part) {
  part.enforced = "no";
  part.why = why_pool_fails(status, pool);
  if (!part.why.empty()) return;
  part.why = why_guard_fails(status, part);
  part.enforced = part.why.empty() ? "yes" : "partly";
}

std::string limits_of(const Shown& part) {
  if (text_at(part, "kind") == "monitor") return "nothing of it";
  const Shown &instance = map_at(part, "instance"), &process = map_at(part, "process");
  std::string text = instance.empty()             ? "all of it"
                     : truth_at(instance, "made") ? "all of it, on demand"
                                                  : "all of it, being made";
  if (is_limited(part))
    text = fmt::format("{} MiB, {} SMs ({} cores)", count_at(part, "memoryMiB"), count_at(part, "sms"),
                       count_at(part, "cores"));
  std::vector<std::string> of_each;
  if (const auto most = count_at(process, "memoryMiB"); most > 0) of_each.push_back(fmt::format("{} MiB", most));
  if (const auto most = count_at(process, "sms"); most > 0) of_each.push_back(fmt::format("{} SMs", most));
  return of_each.empty() ? text : fmt::format("{}, each process {}", text, join(of_each, ", "));
}

// The claim's tenant in `grants`, for who holds it and what it uses.
void add_tenant(const Shown& status, ShownPart& part) {
  for (const Shown& grant : list_at(status, "grants")) {
    if (part.grant.empty() || text_at(grant, "grant") != part.grant) continue;
    const std::string pod = text_at(grant, "pod");
    if (!pod.starts_with("claim:")) part.holder = text_at(grant, "namespace") + "/" + pod;
    if (const Shown& device = entry_at(grant, "devices", "uuid", part.gpu); member_at(device, "usedMiB").is_number())
      part.used_mib = count_at(device, "usedMiB");
  }
}

}  // namespace

std::vector<ShownPart> claims_shown(const Shown& status) {
  std::vector<ShownPart> all;
  for (const Shown& claim : list_at(map_at(status, "dra"), "claims")) {
    for (const Shown& json : list_at(claim, "parts")) {
      ShownPart part;
      part.claim = text_at(claim, "namespace") + "/" + text_at(claim, "name");
      part.uid = text_at(claim, "uid");
      part.request = text_at(json, "request");
      part.gpu = text_at(json, "gpu");
      part.kind = text_at(json, "kind");
      part.grant = text_at(json, "grant");
      part.limits = limits_of(json);
      part.limit_mib = count_at(json, "memoryMiB");
      part.cores = count_at(json, "cores");
      for (const Shown& device : list_at(json, "devices"))
        if (part.device.empty()) part.device = text_at(device, "device");
      add_tenant(status, part);
      if (part.kind == "shared" && is_limited(json)) judge(status, text_at(json, "mpsPool"), part);
      all.push_back(std::move(part));
    }
  }
  return all;
}

std::vector<ServingFault> serving_faults(const Shown& status) {
  std::vector<ServingFault> faults;
  const Shown& dra = map_at(status, "dra");
  if (dra.empty()) return faults;
  const Shown& slices = map_at(dra, "slices");
  const std::string state = text_at(slices, "state"), problem = text_at(slices, "problem");
  if (state == "failing" || state == "waiting")
    faults.push_back({"the node's ResourceSlices are not published: " + (problem.empty() ? state : problem),
                      "see that the agent reaches the API server and has the rights of deploy/rbac/dra.yaml, and that "
                      "the server serves resource.k8s.io/v1 (Kubernetes 1.34 or later)"});
  for (const auto& withheld : texts_at(slices, "withheld"))
    faults.push_back({"not all devices are published: " + withheld,
                      "switch the feature gate on, or use Kubernetes 1.36.2 or later"});
  if (dra.contains("serving") && !truth_at(dra, "serving"))
    faults.push_back({"the DRA driver does not serve: " + text_at(dra, "problem"),
                      "mount kubelet's plugins_registry directory into the agent (dra.enabled in the "
                      "chart)"});
  else if (dra.contains("serving") && !truth_at(dra, "registered"))
    faults.push_back({"kubelet has not registered the DRA driver " + text_at(dra, "driver") +
                          (text_at(dra, "problem").empty() ? "" : ": " + text_at(dra, "problem")),
                      "see that kubelet watches plugins_registry, and read its log for the driver's name"});
  if (const std::string unwritten = text_at(dra, "statusProblem"); !unwritten.empty())
    faults.push_back({unwritten, "the claims are served all the same; correct the cause, and the agent writes it"});
  return faults;
}

}  // namespace tranche::dra
