// Claims (Dynamic Resource Allocation): what the node agent reports of them, what their CDI specifications give to
// containers, and what a container sees.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "doctor/verify/check_groups.h"
#include "dra/claim_spec.h"
#include "dra/claims_shown.h"

namespace tranche::doctor {
namespace {

using Shown = nlohmann::json;

constexpr const char* kSpec = "claim.specification";
constexpr const char* kRestore =
    "the agent restores it when it is lost or the agent is restarted; see its log, and whether another program writes "
    "into the directory";

std::string about(const dra::ShownPart& part) {
  return part.claim + "/" + part.request;
}

std::string value_in(const Shown& edits, const std::string& variable) {
  for (const Shown& entry : list_at(edits, "env")) {
    if (!entry.is_string()) continue;
    const auto& text = entry.get_ref<const std::string&>();
    if (text.starts_with(variable + "=")) return text.substr(variable.size() + 1);
  }
  return {};
}

// The entries of a list that is separated by commas, in an order that can be compared.
std::set<std::string> entries_of(const std::string& list) {
  std::set<std::string> entries;
  for (const auto entry : split(list, ','))
    if (!entry.empty()) entries.emplace(entry);
  return entries;
}

// "" or what one device of the specification gives that is not as recorded. A request with several GPUs has one
// endpoint, and each of its devices gives all of them.
std::string difference(const Shown& edits, const dra::ShownPart& part, const std::vector<dra::ShownPart>& parts) {
  std::set<std::string> gpus, limits;
  for (const auto& each : parts) {
    if (each.uid != part.uid || each.request != part.request || each.grant != part.grant) continue;
    gpus.insert(each.gpu);
    const auto limit = each.process_mib > 0 ? each.process_mib : each.limit_mib;
    if (limit > 0) limits.insert(fmt::format("{}={}M", each.gpu, limit));
  }
  const auto all = [](const std::set<std::string>& entries) {
    return join(std::vector<std::string>(entries.begin(), entries.end()), ",");
  };
  const std::string gpu = value_in(edits, "NVIDIA_VISIBLE_DEVICES");
  if (entries_of(gpu) != gpus)
    return fmt::format("NVIDIA_VISIBLE_DEVICES is {}, and the claim has {}", in_quotes(gpu), all(gpus));
  const std::string limit = value_in(edits, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  if (entries_of(limit) != limits)
    return fmt::format("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT is {}, and the claim has {}", in_quotes(limit),
                       in_quotes(all(limits)));
  if (part.grant.empty()) return {};
  const auto& mounts = list_at(edits, "mounts");
  const bool mounted = std::ranges::any_of(mounts, [&](const Shown& mount) {
    return text_at(mount, "hostPath").ends_with("/pools/" + part.pool + "/endpoints/" + part.grant);
  });
  return mounted ? "" : "the claim's endpoint is not mounted";
}

}  // namespace

void check_claims(const Shown& node, Findings& checks) {
  const Shown& dra = map_at(node, "dra");
  if (dra.empty()) return;
  const auto faults = dra::serving_faults(node);
  for (const auto& fault : faults) checks.fail("agent.claims", "", fault.what, fault.remedy);
  const auto parts = dra::claims_shown(node);
  if (faults.empty()) {
    const Shown& slices = map_at(dra, "slices");
    checks.pass("agent.claims", text_at(dra, "driver"),
                fmt::format("kubelet has registered the driver, {} devices are published in {} "
                            "ResourceSlices, {} claims are prepared",
                            count_at(slices, "devices"), count_at(slices, "slices"), list_at(dra, "claims").size()));
  }
  for (const auto& part : parts) {
    const std::string what = dra::limits_text(part) + " of " + part.device;
    if (part.enforced == "yes")
      checks.pass("claim.limits", about(part), what + ", enforced");
    else if (part.enforced == "partly")
      checks.skip("claim.limits", about(part), what + ", enforced for each process and not for their sum: " + part.why,
                  "docs/guide/security.md says what keeps the sum");
    else if (part.enforced == "no")
      checks.fail("claim.limits", about(part), what + ", not enforced: " + part.why,
                  "the logs of tranche node and tranche mps on this node say more");
  }
}

void check_claim_specs(const Shown& node, const std::map<std::string, std::string>& files, Findings& checks) {
  const auto parts = dra::claims_shown(node);
  for (const Shown& claim : list_at(map_at(node, "dra"), "claims")) {
    const std::string uid = text_at(claim, "uid"), name = text_at(claim, "namespace") + "/" + text_at(claim, "name");
    const std::string file = dra::claim_spec_file(text_at(claim, "driver"), uid);
    const auto found = files.find(file);
    if (found == files.end()) {
      checks.fail(kSpec, name, file + " is not there: a container of the claim cannot start", kRestore);
      continue;
    }
    const Shown spec = json_of(found->second);
    std::size_t devices = 0;
    std::string wrong;
    for (const auto& part : parts) {
      if (part.uid != uid) continue;
      for (const Shown& device : list_at(spec, "devices")) {
        if (!text_at(device, "name").starts_with(uid + "-" + part.request + "-" + part.device)) continue;
        ++devices;
        if (wrong.empty()) wrong = difference(map_at(device, "containerEdits"), part, parts);
      }
    }
    const bool none = !spec.is_object() || devices == 0;
    checks.pass_or(Verdict::kFail, !none && wrong.empty(), kSpec, name,
                   "it gives containers the GPU, the limits and the endpoint that are recorded",
                   file + (none ? " has no device of the claim" : ": " + wrong), kRestore);
  }
  for (const auto& [file, text] : files) {
    const auto& claims = list_at(map_at(node, "dra"), "claims");
    const bool known = std::ranges::any_of(
        claims, [&](const Shown& claim) { return dra::is_claim_spec_file(file, text_at(claim, "uid")); });
    if (!known && dra::is_claim_spec_file(file) && dra::read_claim_spec(file, text))
      checks.fail(kSpec, file, "no prepared claim belongs to it",
                  "restart the agent, which reads claims back from such files, or delete the file");
  }
}

void check_environment(const std::map<std::string, std::string>& environment, const std::vector<std::string>& gpus,
                       Findings& checks) {
  const auto found = environment.find("NVIDIA_VISIBLE_DEVICES");
  const std::string visible = found == environment.end() ? "" : found->second;
  const auto seen = entries_of(visible);
  if (visible.empty() || visible == "all" || visible == "void") return;  // the runtime's own affair
  for (const auto& gpu : gpus) {
    if (!gpu.starts_with("GPU-") && !gpu.starts_with("MIG-")) continue;
    checks.pass_or(Verdict::kFail, seen.contains(gpu), "inside.devices", gpu,
                   "the container's variables name it, and CUDA runs on it",
                   "the limits are of this GPU, and NVIDIA_VISIBLE_DEVICES is " + in_quotes(visible),
                   "the pod's own variables replace those of its claim or slots: remove them from its manifest");
  }
}

}  // namespace tranche::doctor
