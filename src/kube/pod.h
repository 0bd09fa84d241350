#pragma once
// The few fields of a pod that are used: its identity, whether it is terminating, and its containers. All other fields
// are ignored. Pure; fuzzed.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/object.h"

namespace tranche::kube {

struct ContainerSeen {
  std::string name;
  std::string container_id;  // "containerd://…", "" if there is none yet
  friend bool operator==(const ContainerSeen&, const ContainerSeen&) = default;
};

// MPS limits that a container's manifest sets as plain values.
struct MpsEnvironmentSeen {
  std::string container;
  std::optional<std::string> threads;  // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
  std::optional<std::string> memory;   // CUDA_MPS_PINNED_DEVICE_MEM_LIMIT
  friend bool operator==(const MpsEnvironmentSeen&, const MpsEnvironmentSeen&) = default;
};

struct PodSeen {
  std::string pod_namespace;
  std::string name;
  std::string uid;
  std::string node_name;
  std::string phase;      // "Pending", "Running", "Succeeded", "Failed", "Unknown"
  bool mirror = false;    // kubelet's mirror of a static pod: deleting it stops nothing
  bool deleting = false;  // it has a deletionTimestamp: SIGTERM follows
  std::optional<std::int64_t> deletion_grace_seconds;
  std::vector<ContainerSeen> containers;  // as reported by kubelet; empty before that. Init containers come first

  std::vector<MpsEnvironmentSeen> mps_environments = {};  // of the containers that have some

  bool over() const { return phase == "Succeeded" || phase == "Failed"; }
  friend bool operator==(const PodSeen&, const PodSeen&) = default;
};

PodSeen read_pod(const nlohmann::json& object);

// A pod whose deletion or end was seen for the first time, or that no longer exists: `pod` is its last known state.
struct PodEnding {
  bool over = false;  // it has ended, or is gone; else its containers get SIGTERM
  PodSeen pod;
  friend bool operator==(const PodEnding&, const PodEnding&) = default;
};

// The pods of this node as the API server reports them, and which of them each report ends. A pod that reappears under
// the same name with another uid is a different pod. One thread.
class PodTable {
 public:
  std::vector<PodEnding> replace(std::vector<PodSeen> pods);  // after a complete list
  std::vector<PodEnding> apply(Change change, PodSeen pod);   // kAdded, kModified, kDeleted

  const PodSeen* find(const std::string& pod_namespace, const std::string& name) const;
  std::size_t size() const { return pods_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  void put(PodSeen pod, std::vector<PodEnding>& endings);

  std::map<Key, PodSeen> pods_;
};

}  // namespace tranche::kube
