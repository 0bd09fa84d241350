#include "kube/pod.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/json_list.h"
#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::kube {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostMalformed = 8;  // named per page

Result<std::string> needed(const Json& metadata, const char* key) {
  const Json& value = member_at(metadata, key);
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    return fail(Kind::kInvalid, "a pod without metadata." + std::string(key));
  return value.get<std::string>();
}

// lifecycle.preStop of the container with that name, in any of the pod's lists.
void read_pre_stop(const Json& spec, ContainerSeen& seen) {
  for (const char* list : {"containers", "initContainers"}) {
    for (const Json& container : list_at(spec, list)) {
      if (text_at(container, "name") != seen.name) continue;
      const Json& hook = member_at(member_at(container, "lifecycle"), "preStop");
      for (const Json& word : list_at(member_at(hook, "exec"), "command"))
        seen.pre_stop.push_back(word.is_string() ? word.get<std::string>() : "");
      seen.pre_stop_sleep = std::max<std::int64_t>(0, number_at(member_at(hook, "sleep"), "seconds").value_or(0));
      seen.pre_stop_other = hook.is_object() && seen.pre_stop.empty() && seen.pre_stop_sleep == 0;
      return;
    }
  }
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

void add_claim(const Json& spec, const std::string& name_in_pod, const std::string& claim,
               std::vector<ClaimUseSeen>& uses) {
  if (claim.empty()) return;
  const auto before = uses.size();
  for (const char* list : {"initContainers", "containers"})
    for (const Json& container : list_at(spec, list))
      for (const Json& used : list_at(member_at(container, "resources"), "claims"))
        if (text_at(used, "name") == name_in_pod)
          uses.push_back({claim, text_at(container, "name"), text_at(used, "request")});
  if (uses.size() == before) uses.push_back({claim, {}, {}});
}

std::vector<ClaimUseSeen> claims_of(const Json& spec, const Json& status) {
  std::vector<ClaimUseSeen> uses;
  for (const Json& claim : list_at(spec, "resourceClaims"))
    add_claim(spec, text_at(claim, "name"), text_at(claim, "resourceClaimName"), uses);
  for (const Json& made : list_at(status, "resourceClaimStatuses"))
    add_claim(spec, text_at(made, "name"), text_at(made, "resourceClaimName"), uses);
  const Json& extended = member_at(status, "extendedResourceClaimStatus");
  for (const Json& mapping : list_at(extended, "requestMappings"))
    uses.push_back(
        {text_at(extended, "resourceClaimName"), text_at(mapping, "containerName"), text_at(mapping, "requestName")});
  return uses;
}

ContainerSeen read_container(const Json& spec, const Json& status) {
  ContainerSeen seen;
  seen.name = text_at(status, "name");
  seen.container_id = text_at(status, "containerID");
  seen.ready = truth_at(status, "ready");
  seen.started = truth_at(status, "started");
  seen.ended = member_at(member_at(status, "state"), "terminated").is_object();
  read_pre_stop(spec, seen);
  seen.stop_signal = text_at(status, "stopSignal");
  return seen;
}

}  // namespace

Result<PodSeen> read_pod(const Json& object) {
  if (!object.is_object()) return fail(Kind::kInvalid, "a pod that is no JSON object");
  const Json& metadata = member_at(object, "metadata");
  PodSeen pod;
  TRY(pod.pod_namespace, needed(metadata, "namespace"));
  TRY(pod.name, needed(metadata, "name"));
  TRY(pod.uid, needed(metadata, "uid"));
  pod.resource_version = text_at(metadata, "resourceVersion");
  pod.deleting = member_at(metadata, "deletionTimestamp").is_string();
  pod.deletion_grace_seconds = number_at(metadata, "deletionGracePeriodSeconds");
  pod.mirror = !text_at(member_at(metadata, "annotations"), "kubernetes.io/config.mirror").empty();
  const Json& spec = member_at(object, "spec");
  pod.node_name = text_at(spec, "nodeName");
  pod.mps_environments = mps_environments_of(spec);
  const Json& status = member_at(object, "status");
  pod.phase = text_at(status, "phase");
  pod.claims = claims_of(spec, status);
  for (const char* list : {"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"})
    for (const Json& container : list_at(status, list))
      if (!text_at(container, "name").empty()) pod.containers.push_back(read_container(spec, container));
  return pod;
}

Result<PodPage> parse_pod_list(std::string_view body) {
  PodPage page;
  const Json document = json_of_list(body, "items", [&page](const Json& item) {
    if (auto pod = read_pod(item)) {
      page.pods.push_back(*std::move(pod));
    } else if (page.malformed.size() < kMostMalformed) {
      page.malformed.push_back(pod.error().what);
    }
  });
  if (!document.is_object() || !member_at(document, "items").is_array()) {
    // An empty list may have "items": null.
    if (!document.is_object() || !member_at(document, "items").is_null() || text_at(document, "kind") != "PodList")
      return fail(Kind::kInvalid, "the API server answered with something that is no list of pods: " + in_quotes(body));
  }
  const Json& metadata = member_at(document, "metadata");
  page.resource_version = text_at(metadata, "resourceVersion");
  page.next = text_at(metadata, "continue");
  if (page.resource_version.empty())
    return fail(Kind::kInvalid, "the API server answered with a list that has no metadata.resourceVersion");
  return page;
}

}  // namespace tranche::kube
