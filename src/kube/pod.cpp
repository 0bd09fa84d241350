#include "kube/pod.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;

Result<std::string> needed(const Json& metadata, const char* key) {
  const Json& value = member_at(metadata, key);
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    return fail(Kind::kInvalid, "a pod without metadata." + std::string(key));
  return value.get<std::string>();
}

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

Result<PodSeen> read_pod(const Json& object) {
  if (!object.is_object()) return fail(Kind::kInvalid, "a pod is not a JSON object");
  const Json& metadata = member_at(object, "metadata");
  PodSeen pod;
  TRY(pod.pod_namespace, needed(metadata, "namespace"));
  TRY(pod.name, needed(metadata, "name"));
  TRY(pod.uid, needed(metadata, "uid"));
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

void PodTable::put(PodSeen pod, PodChanges& changes) {
  using What = PodChange::What;
  const Key key(pod.pod_namespace, pod.name);
  const auto at = pods_.find(key);
  const bool is_new = at == pods_.end() || at->second.uid != pod.uid;
  if (at != pods_.end() && is_new) changes.push_back({What::kGone, at->second});
  const bool deleting = pod.deleting && (is_new || !at->second.deleting);
  const bool ended = pod.over() && (is_new || !at->second.over());
  if (deleting) {
    changes.push_back({What::kDeleting, pod});
  } else if (ended) {
    changes.push_back({What::kEnded, pod});
  } else if (is_new) {
    changes.push_back({What::kNew, pod});
  } else if (pod != at->second) {
    changes.push_back({What::kChanged, pod});
  }
  pods_.insert_or_assign(key, std::move(pod));
}

PodChanges PodTable::replace(std::vector<PodSeen> pods) {
  PodChanges changes;
  std::set<Key> here;
  for (const auto& pod : pods) here.emplace(pod.pod_namespace, pod.name);
  for (auto it = pods_.begin(); it != pods_.end();) {
    if (here.contains(it->first)) {
      ++it;
      continue;
    }
    changes.push_back({PodChange::What::kGone, std::move(it->second)});
    it = pods_.erase(it);
  }
  for (auto& pod : pods) put(std::move(pod), changes);
  return changes;
}

PodChanges PodTable::apply(Change change, PodSeen pod) {
  PodChanges changes;
  if (change == Change::kDeleted) {
    const auto at = pods_.find({pod.pod_namespace, pod.name});
    if (at == pods_.end() || at->second.uid != pod.uid) return changes;
    pods_.erase(at);
    changes.push_back({PodChange::What::kGone, std::move(pod)});
    return changes;
  }
  put(std::move(pod), changes);
  return changes;
}

const PodSeen* PodTable::find(const std::string& pod_namespace, const std::string& name) const {
  const auto at = pods_.find({pod_namespace, name});
  return at == pods_.end() ? nullptr : &at->second;
}

}  // namespace tranche::kube
