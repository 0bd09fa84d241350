#include "kube/pod.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;

// A value from another source, or one that kubelet composes, is not known here.
std::optional<std::string> plain_value(const Json& container, std::string_view name) {
  std::optional<std::string> value;
  for (const Json& variable : list_at(container, "env")) {
    if (text_at(variable, "name") != name) continue;
    const std::string text = text_at(variable, "value");
    const bool plain = !member_at(variable, "valueFrom").is_object() && text.find("$(") == std::string::npos;
    value = plain ? std::optional(text) : std::nullopt;  // of several the last applies
  }
  return value;
}

std::vector<MpsEnvironmentSeen> mps_environments_of(const Json& spec) {
  std::vector<MpsEnvironmentSeen> all;
  for (const char* list : {"initContainers", "containers"}) {
    for (const Json& container : list_at(spec, list)) {
      MpsEnvironmentSeen environment{text_at(container, "name"),
                                     plain_value(container, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
                                     plain_value(container, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")};
      if (environment.threads || environment.memory) all.push_back(std::move(environment));
    }
  }
  return all;
}

}  // namespace

PodSeen read_pod(const Json& object) {
  const Json& metadata = member_at(object, "metadata");
  PodSeen pod;
  pod.pod_namespace = text_at(metadata, "namespace");
  pod.name = text_at(metadata, "name");
  pod.uid = text_at(metadata, "uid");
  pod.deleting = member_at(metadata, "deletionTimestamp").is_string();
  pod.deletion_grace_seconds = number_at(metadata, "deletionGracePeriodSeconds");
  pod.mirror = !text_at(member_at(metadata, "annotations"), "kubernetes.io/config.mirror").empty();
  const Json& spec = member_at(object, "spec");
  pod.node_name = text_at(spec, "nodeName");
  pod.mps_environments = mps_environments_of(spec);
  const Json& status = member_at(object, "status");
  pod.phase = text_at(status, "phase");
  for (const char* list : {"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"})
    for (const Json& container : list_at(status, list))
      if (!text_at(container, "name").empty())
        pod.containers.push_back({text_at(container, "name"), text_at(container, "containerID")});
  return pod;
}

void PodTable::put(PodSeen pod, std::vector<PodEnding>& endings) {
  PodSeen& known = pods_[{pod.pod_namespace, pod.name}];
  if (known.uid != pod.uid) {
    if (!known.uid.empty()) endings.push_back({true, std::move(known)});
    known = {};
  }
  const bool ended = pod.over() && !known.over();
  if (ended || (pod.deleting && !known.deleting)) endings.push_back({ended, pod});
  known = std::move(pod);
}

std::vector<PodEnding> PodTable::replace(std::vector<PodSeen> pods) {
  std::vector<PodEnding> endings;
  auto before = std::exchange(pods_, {});
  for (auto& pod : pods) {
    pods_.insert(before.extract({pod.pod_namespace, pod.name}));
    put(std::move(pod), endings);
  }
  for (auto& [key, pod] : before) endings.push_back({true, std::move(pod)});
  return endings;
}

std::vector<PodEnding> PodTable::apply(Change change, PodSeen pod) {
  std::vector<PodEnding> endings;
  if (change != Change::kDeleted) {
    put(std::move(pod), endings);
  } else if (const auto* known = find(pod.pod_namespace, pod.name); known != nullptr && known->uid == pod.uid) {
    pods_.erase({pod.pod_namespace, pod.name});
    endings.push_back({true, std::move(pod)});
  }
  return endings;
}

const PodSeen* PodTable::find(const std::string& pod_namespace, const std::string& name) const {
  const auto at = pods_.find({pod_namespace, name});
  return at == pods_.end() ? nullptr : &at->second;
}

}  // namespace tranche::kube
