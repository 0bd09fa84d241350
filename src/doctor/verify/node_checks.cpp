// What the API server knows of the node.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "base/units.h"
#include "doctor/verify/checks.h"
#include "kube/object.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kVendor = "nvidia.com/";

const Json& labels_of(const Json& object) {
  return map_at(map_at(object, "metadata"), "labels");
}

const Json& condition_of(const Json& object, std::string_view type) {
  return entry_at(map_at(object, "status"), "conditions", "type", type);
}

// Whole numbers of devices by resource name, "4k" included.
std::map<std::string, std::uint64_t> counts_in(const Json& node, std::string_view field_name) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [name, value] : map_at(map_at(node, "status"), field_name).items()) {
    if (!name.starts_with(kVendor) || !value.is_string()) continue;
    if (const auto count = parse_count(value.get_ref<const std::string&>())) counts[name] = *count;
  }
  return counts;
}

void check_conditions(const Json& node, Findings& checks) {
  const Json& ready = condition_of(node, "Ready");
  checks.pass_or(Verdict::kFail, text_at(ready, "status") == "True", "node.ready", "", "kubelet is ready",
                 "kubelet is not ready: " + text_at(ready, "message"), "kubectl describe node, and kubelet's log");
  const Json& ours = condition_of(node, kube::kReadyCondition);
  const std::string reason = text_at(ours, "reason"), message = text_at(ours, "message");
  if (!ours.is_object()) {
    checks.skip("node.condition", "", "the node has no condition TrancheReady",
                "give the node agent the right to patch nodes/status (deploy/rbac/condition.yaml)");
  } else if (text_at(ours, "status") == "True" && reason == "Serving") {
    checks.pass("node.condition", "", "TrancheReady: " + message);
  } else if (text_at(ours, "status") == "True" && reason == "Waiting") {
    checks.skip("node.condition", "", "a change of the configuration waits: " + message,
                "none: the change continues when the pods that the message names have ended");
  } else {
    checks.fail("node.condition", "",
                fmt::format("TrancheReady is {} ({}): {}", text_at(ours, "status"), reason, message),
                "docs/guide/troubleshoot.md has each reason");
  }
}

void check_counts(const Json& node, Findings& checks) {
  const auto capacity = counts_in(node, "capacity"), allocatable = counts_in(node, "allocatable");
  for (const auto& [name, count] : capacity) {
    const auto found = allocatable.find(name);
    const auto usable = found == allocatable.end() ? 0 : found->second;
    if (usable < count) {
      checks.fail("node.resources", name, fmt::format("{} of {} can be allocated", usable, count),
                  "the other slots are unhealthy: `tranche status` on the node names the GPU and the cause");
    } else if (count > 0) {
      checks.pass("node.resources", name, fmt::format("{}, all of them can be allocated", count));
    }
  }
  if (std::ranges::any_of(capacity, [](const auto& each) { return each.second > 0; })) return;
  const Json& claims = condition_of(node, kube::kDraCondition);
  if (text_at(claims, "status") == "True")
    return checks.pass("node.resources", "claims", "it offers its GPUs to claims: " + text_at(claims, "message"));
  if (claims.is_object() && text_at(claims, "reason") != "Off")
    return checks.fail("node.resources", "claims",
                       fmt::format("{} is {} ({}): {}", kube::kDraCondition, text_at(claims, "status"),
                                   text_at(claims, "reason"), text_at(claims, "message")),
                       "docs/guide/dra.md says what publishing needs");
  checks.fail("node.resources", "", "the node offers no GPU",
              "check that the agent's pod runs on the node; `tranche check` there names what is missing");
}

void check_labels(const Json& node, Findings& checks) {
  const Json& labels = labels_of(node);
  const std::string strategy = text_at(labels, "nvidia.com/gpu.sharing-strategy");
  if (strategy.empty())
    return checks.skip("node.labels", "", "the node has no label nvidia.com/gpu.sharing-strategy",
                       "set --label-output node, or install node feature discovery");
  const bool mps = strategy == "mps";
  if (mps && text_at(labels, "nvidia.com/mps.capable") != "true")
    return checks.fail("node.labels", "nvidia.com/mps.capable", "it is not \"true\", and MPS shares this node",
                       "another client may have set it: `tranche status` lists labels that are left alone");
  std::vector<std::string> shown;
  for (const char* key : {"nvidia.com/gpu.product", "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas",
                          "tranche.io/gpu.slot.memory", "tranche.io/gpu.slot.sms"})
    if (const std::string value = text_at(labels, key); !value.empty()) shown.push_back(std::string(key) + "=" + value);
  checks.pass("node.labels", "", join(shown, " "));
}

}  // namespace

void check_pod(const Json& pod, const std::string& doubt, Findings& checks) {
  const std::string name =
      text_at(map_at(pod, "metadata"), "namespace") + "/" + text_at(map_at(pod, "metadata"), "name");
  if (!doubt.empty())
    return checks.fail("agent.pods", name, "it has our labels, and is not asked: " + doubt,
                       "delete it, or its labels; who made it may create pods in the agents' namespace");
  std::uint64_t restarts = 0;
  std::vector<std::string> waits;
  for (const Json& container : list_at(map_at(pod, "status"), "containerStatuses")) {
    restarts += count_at(container, "restartCount");
    const std::string why = text_at(map_at(map_at(container, "state"), "waiting"), "reason");
    if (!truth_at(container, "ready"))
      waits.push_back(text_at(container, "name") + (why.empty() ? "" : " (" + why + ")"));
  }
  checks.pass_or(Verdict::kFail, text_at(condition_of(pod, "Ready"), "status") == "True", "agent.pods", name,
                 fmt::format("ready, {} restarts", restarts),
                 fmt::format("{}, not ready{}", text_at(map_at(pod, "status"), "phase"),
                             waits.empty() ? "" : ": " + join(waits, ", ")),
                 "kubectl describe pod, and the logs of these containers");
}

void check_node(const Json& node, Findings& checks) {
  check_conditions(node, checks);
  check_counts(node, checks);
  check_labels(node, checks);
}

void check_node_against_agent(const Json& node, const Json& node_status, Findings& checks) {
  auto capacity = counts_in(node, "capacity");
  bool same = true;
  for (const Json& resource : list_at(node_status, "resources")) {
    const std::string name = text_at(resource, "name");
    const auto has = capacity[name], slots = count_at(resource, "slots");
    if (has != slots) {
      same = false;
      checks.fail("node.advertised", name, fmt::format("the node has {}, the agent advertises {}", has, slots),
                  "kubelet follows within seconds; if this stays, another device plugin serves the name");
    }
    capacity.erase(name);
  }
  for (const auto& [name, count] : capacity) {
    if (count == 0) continue;
    same = false;
    checks.fail("node.advertised", name, fmt::format("the node has {} that the agent does not advertise", count),
                "remove NVIDIA's device plugin from this node; of an older configuration kubelet forgets it "
                "after five minutes");
  }
  if (same) checks.pass("node.advertised", "", "the node has what the agent advertises, and nothing else");

  const std::string wanted = text_at(labels_of(node), "nvidia.com/device-plugin.config");
  const std::string name = text_at(map_at(node_status, "config"), "name");
  if (!wanted.empty() && wanted != name && text_at(map_at(node_status, "config"), "chosenBy") != "file") {
    checks.fail("node.configuration", wanted,
                "the label nvidia.com/device-plugin.config asks for it; in effect is " + in_quotes(name),
                "`tranche status` says why; a name that is not in the ConfigMap leaves the last one in effect");
  } else {
    checks.pass("node.configuration", name, "what the node's label and the defaults ask for is in effect");
  }
  for (const auto& [key, value] : map_at(node_status, "labels").items()) {
    if (!value.is_string() || key == "nvidia.com/gfd.timestamp") continue;
    const std::string there = text_at(labels_of(node), key);
    if (there.empty() || there == value.get_ref<const std::string&>()) continue;
    checks.fail(
        "node.labels", key,
        fmt::format("the node says {}, the agent {}", in_quotes(there), in_quotes(value.get_ref<const std::string&>())),
        "another client has set it: remove the label, or stop that client");
  }
}

}  // namespace tranche::doctor
