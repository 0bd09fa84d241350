// What the two programs of the node report of themselves, and what the driver reports of its GPUs. Claims (Dynamic
// Resource Allocation): what the node agent reports of them, and what a container sees.
#include "doctor/verify/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "dra/claims_shown.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

void check_ready(const Json& node, Findings& checks) {
  const std::string version = text_at(node, "version");
  checks.pass_or(Verdict::kFail, truth_at(node, "ready"), "agent.ready", "",
                 fmt::format("the node agent (version {}) is ready", version),
                 "the node agent is not ready: " + text_at(node, "readyReason"),
                 "`tranche status` on the node shows the whole picture");
  const Json& driver = map_at(node, "driver");
  checks.pass_or(Verdict::kFail, text_at(driver, "state") == "ready", "agent.driver", "",
                 "driver " + text_at(driver, "version") + " answers",
                 "the driver does not answer: " + text_at(driver, "reason"),
                 "run `tranche check` on the node: it names what is missing");
}

void check_configuration(const Json& node, const Json& mps, Findings& checks) {
  const Json& config = map_at(node, "config");
  const std::string hash = text_at(config, "hash");
  const std::string name = text_at(config, "name");
  const std::string which = name.empty() ? text_at(config, "path") : name;
  const std::string problems = join(texts_at(config, "problems"), "; ");
  const std::string plan_problems = join(texts_at(node, "planProblems"), "; ");
  if (text_at(config, "inForce") == "last good") {
    checks.fail("agent.configuration", which,
                "the newest configuration is refused, and an older one is in effect: " + problems,
                "correct it where the message says; running pods are not disturbed");
  } else if (!plan_problems.empty()) {
    checks.fail("agent.configuration", which, "it does not fit this hardware: " + plan_problems,
                "correct it; `tranche plan` shows what a file would give");
  } else {
    checks.pass("agent.configuration", which,
                fmt::format("in effect, chosen by {}, hash {}", text_at(config, "chosenBy"),
                            hash.empty() ? "none (defaults)" : hash));
  }
  if (!truth_at(map_at(node, "mps"), "needed")) return;
  if (!mps.is_object())
    return checks.skip("agent.same-configuration", "", "tranche mps could not be asked for its configuration",
                       "run `tranche verify --local` on the node");
  const std::string theirs = text_at(map_at(mps, "config"), "hash");
  checks.pass_or(Verdict::kFail, theirs == hash, "agent.same-configuration", "",
                 "the node agent and tranche mps have the same configuration",
                 fmt::format("the node agent has the configuration {} and tranche mps has {}", hash, theirs),
                 "give both the same file, or tranche mps --config-of-node");
}

void check_resources(const Json& node, Findings& checks) {
  const auto& resources = list_at(node, "resources");
  const bool by_claims = !map_at(node, "dra").empty();  // whose devices kubelet does not know as resources
  if (resources.empty() && !by_claims) {
    checks.fail("agent.resources", "", "nothing is advertised to kubelet",
                "`tranche status` names what the plan leaves out and why; with \"no resources specified\" "
                "the configuration has a sharing section without resources");
  }
  for (const Json& resource : list_at(node, "resources")) {
    const std::string name = text_at(resource, "name");
    const auto slots = count_at(resource, "slots"), healthy = count_at(resource, "healthy");
    if (!truth_at(resource, "registered")) {
      checks.fail("agent.resources", name, "kubelet has not registered it: " + text_at(resource, "problem"),
                  "see that kubelet runs and that its device-plugins folder is mounted");
    } else if (healthy < slots) {
      checks.fail("agent.resources", name, fmt::format("{} of {} slots are healthy", healthy, slots),
                  "`tranche status` on the node names the GPU and the cause");
    } else {
      checks.pass("agent.resources", name,
                  fmt::format("{} slots, all healthy, {} held by pods", slots, count_at(resource, "allocated")));
    }
  }
}

void check_slots(const Json& node, Findings& checks) {
  for (const Json& device : list_at(node, "devices")) {
    const std::string gpu = text_at(device, "uuid");
    const auto slots = list_at(device, "slots").size();
    const auto memory = count_at(device, "memoryMiB"), each = count_at(device, "slotMemoryMiB");
    const auto sms = count_at(device, "slotSms");
    if (text_at(device, "sharing") != "mps") continue;
    const std::string limits =
        fmt::format("a slot has {} and {}", each == 0 ? "no memory limit" : fmt::format("{} MiB", each),
                    sms == 0 ? "no SM limit" : fmt::format("{} of {} SMs", sms, count_at(device, "smCount")));
    checks.pass_or(Verdict::kFail, memory == 0 || each * slots <= memory, "agent.memory", gpu,
                   fmt::format("{}, {} slots", limits, slots),
                   fmt::format("{} slots of {} MiB are more than the {} MiB of the GPU", slots, each, memory),
                   "wanted only with a memory factor above 1 (docs/guide/share-sizes.md); otherwise raise replicas");
  }
}

void check_pools(const Json& node, const Json& mps, Findings& checks) {
  if (!truth_at(map_at(node, "mps"), "needed")) return;
  if (!truth_at(map_at(node, "mps"), "connected"))
    return checks.fail("agent.daemon", "", "tranche mps does not answer: " + text_at(map_at(node, "mps"), "problem"),
                       "see that its pod runs and that both have the same --mps-root");
  if (!mps.is_object()) {
    for (const Json& device : list_at(node, "devices")) {
      const std::string state = text_at(device, "poolState");
      if (text_at(device, "pool").empty()) continue;
      checks.pass_or(Verdict::kFail, state == "serving", "agent.daemon", text_at(device, "pool"),
                     "its MPS control daemon serves", "its MPS control daemon is " + state,
                     "the log of tranche mps says why");
    }
    return;
  }
  for (const Json& pool : list_at(mps, "pools")) {
    const std::string id = text_at(pool, "id"), state = text_at(pool, "state");
    const std::string proof = text_at(map_at(pool, "proof"), "state");
    if (state == "serving" && (proof == "proven" || proof == "running")) {
      checks.pass("agent.daemon", id,
                  fmt::format("its MPS control daemon serves, a CUDA start through it worked, {} clients",
                              count_at(map_at(pool, "clients"), "live")));
    } else if (state == "serving") {
      checks.skip("agent.daemon", id, "its daemon serves, and no CUDA start has proven it (" + proof + ")",
                  "give `tranche mps` libcuda.so.1 (driver root), or use --deep");
    } else {
      checks.fail("agent.daemon", id, fmt::format("its MPS control daemon is {}: {}", state, text_at(pool, "reason")),
                  "the log of tranche mps and <mps-root>/pools/" + id + "/log say why");
    }
  }
}

void check_promises(const Json& node, Findings& checks) {
  for (const Json& row : list_at(node, "inForce")) {
    const std::string promise = text_at(row, "promise"), state = text_at(row, "state"), why = text_at(row, "why");
    if (state == "yes") {
      checks.pass("agent.enforced", promise, "kept by " + text_at(row, "by"));
    } else if (state == "partly") {
      checks.skip("agent.enforced", promise, "partly, by " + text_at(row, "by") + ": " + why);
    } else {
      checks.fail("agent.enforced", promise, "not kept: " + why, "docs/guide/security.md says what keeps it");
    }
  }
  for (const Json& foreign_process : list_at(map_at(node, "guard"), "foreignProcesses"))
    checks.fail("agent.foreign-processes", text_at(foreign_process, "device"),
                count_at(foreign_process, "pid") == 0  // the network page has no process ids
                    ? std::string("a process uses it beside MPS, without limits")
                    : fmt::format("process {} ({}) uses it beside MPS, without limits",
                                  count_at(foreign_process, "pid"), text_at(foreign_process, "name")),
                "end it, or set sharing.mps.guard.foreignProcesses: terminate");
  const std::string holdings = text_at(map_at(node, "kubelet"), "holdingsProblem");
  if (!holdings.empty())
    checks.fail("agent.pod-resources", "", "kubelet does not report which pods hold what: " + holdings,
                "mount kubelet's pod-resources folder into the agent");
  if (const std::string cdi = text_at(node, "cdiProblem"); !cdi.empty())
    checks.fail("agent.cdi", "", cdi, "docs/reference/cdi.md says what the specs need");
}

// Of its MIG devices, or what was left out with a reason.
bool is_accounted_for(const Json& node_status, const gpu::Gpu& gpu) {
  for (const auto& mig : gpu.mig_devices)
    if (entry_at(node_status, "devices", "uuid", mig.uuid).is_object()) return true;
  return std::ranges::any_of(list_at(node_status, "leftOut"), [&](const Json& left) {
    const std::string what = text_at(left, "what");
    return what.find(gpu.uuid) != std::string::npos || what.find(fmt::format("GPU {}", gpu.index)) != std::string::npos;
  });
}

void check_gpu(const gpu::Gpu& gpu, const Json& device, Findings& checks) {
  const auto memory = count_at(device, "memoryMiB"), each = count_at(device, "slotMemoryMiB");
  const auto slots = list_at(device, "slots").size();
  const auto sms = count_at(device, "smCount");
  checks.pass_or(Verdict::kFail, memory == gpu.memory.in_mib() && sms == gpu.sm_count, "hardware.gpu", gpu.uuid,
                 fmt::format("{}, {} MiB, {} SMs, {} slots{}", gpu.name, memory, gpu.sm_count, slots,
                             each == 0 ? "" : fmt::format(" of {} MiB", each)),
                 fmt::format("the driver says {} MiB and {} SMs, the agent {} MiB and {} SMs", gpu.memory.in_mib(),
                             gpu.sm_count, memory, sms),
                 "restart the node agent; pods are not disturbed by it");
  if (text_at(device, "sharing") != "mps") return;
  if (gpu.compute_mode == gpu::ComputeMode::kExclusiveProcess) {
    checks.pass("hardware.compute-mode", gpu.uuid, "EXCLUSIVE_PROCESS: nothing starts beside MPS");
  } else if (gpu.compute_mode == gpu::ComputeMode::kDefault) {
    checks.skip("hardware.compute-mode", gpu.uuid, "DEFAULT: a process that avoids MPS can start on it, without limits",
                "wanted with sharing.mps.computeMode: leave; otherwise see the log of tranche mps");
  } else {
    checks.fail("hardware.compute-mode", gpu.uuid,
                fmt::format("{}: MPS cannot serve it", gpu::to_string(gpu.compute_mode)),
                fmt::format("nvidia-smi -c DEFAULT -i {}, then restart tranche mps", gpu.index));
  }
}

std::string about(const dra::ShownPart& part) {
  return part.claim + "/" + part.request;
}

}  // namespace

void check_agent(const Json& node_status, const Json& mps_status, Findings& checks) {
  check_ready(node_status, checks);
  check_configuration(node_status, mps_status, checks);
  check_resources(node_status, checks);
  check_slots(node_status, checks);
  check_pools(node_status, mps_status, checks);
  check_promises(node_status, checks);
  check_claims(node_status, checks);
}

void check_hardware(const gpu::Inventory& hardware, const Json& node_status, Findings& checks) {
  for (const std::string& sentence : hardware.unreadable)
    checks.fail("hardware.gpu", "", sentence, "see dmesg for Xid lines; reset the GPU or reboot the node");
  for (const auto& gpu : hardware.gpus) {
    if (const Json& device = entry_at(node_status, "devices", "uuid", gpu.uuid); device.is_object()) {
      check_gpu(gpu, device, checks);
    } else if (is_accounted_for(node_status, gpu)) {
      checks.pass("hardware.gpu", gpu.uuid, gpu.name + ", served by its MIG devices or left out with a reason");
    } else if (text_at(map_at(map_at(node_status, "dra"), "slices"), "state") == "published") {
      checks.pass("hardware.gpu", gpu.uuid, gpu.name + ", offered to claims");
    } else {
      checks.fail("hardware.gpu", gpu.uuid, gpu.name + " is there and the agent does not serve it",
                  "`tranche status` lists what is left out and why; restart the agent if it is not there");
    }
  }
}

void check_claims(const Json& node, Findings& checks) {
  const Json& dra = map_at(node, "dra");
  if (dra.empty()) return;
  const auto faults = dra::serving_faults(node);
  for (const auto& fault : faults) checks.fail("agent.claims", "", fault.what, fault.remedy);
  const auto parts = dra::claims_shown(node);
  if (faults.empty()) {
    const Json& slices = map_at(dra, "slices");
    checks.pass("agent.claims", text_at(dra, "driver"),
                fmt::format("kubelet has registered the driver, {} devices are published in {} "
                            "ResourceSlices, {} claims are prepared",
                            count_at(slices, "devices"), count_at(slices, "slices"), list_at(dra, "claims").size()));
  }
  for (const auto& part : parts) {
    const std::string what = part.limits + " of " + part.device;
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

void check_environment(const std::map<std::string, std::string>& environment, const std::vector<std::string>& gpus,
                       Findings& checks) {
  const auto found = environment.find("NVIDIA_VISIBLE_DEVICES");
  const std::string visible = found == environment.end() ? "" : found->second;
  const auto seen = split(visible, ',');
  if (visible.empty() || visible == "all" || visible == "void") return;  // the runtime's own affair
  for (const auto& gpu : gpus) {
    if (!gpu.starts_with("GPU-") && !gpu.starts_with("MIG-")) continue;
    checks.pass_or(Verdict::kFail, std::ranges::find(seen, gpu) != seen.end(), "inside.devices", gpu,
                   "the container's variables name it, and CUDA runs on it",
                   "the limits are of this GPU, and NVIDIA_VISIBLE_DEVICES is " + in_quotes(visible),
                   "the pod's own variables replace those of its claim or slots: remove them from its manifest");
  }
}

}  // namespace tranche::doctor
