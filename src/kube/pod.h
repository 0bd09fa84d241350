#pragma once
// The few fields of a pod that are used: its identity, whether it is terminating, and its containers. All other fields
// are ignored. Pure; fuzzed.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
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

// kInvalid, with the field, if the pod's identity is missing or has another type.
Result<PodSeen> read_pod(const nlohmann::json& object);

struct PodChange {
  enum class What {
    kNew,       // not known before
    kChanged,   // one of the fields that are read changed
    kDeleting,  // its deletion was seen for the first time
    kEnded,     // its phase became Succeeded or Failed
    kGone,      // no longer exists; `pod` is its last known state
  };
  What what = What::kNew;
  PodSeen pod;
  friend bool operator==(const PodChange&, const PodChange&) = default;
};
// The most important change, for callers that look at one only: a new pod that is already being deleted is kDeleting.
using PodChanges = std::vector<PodChange>;

// The pods of this node as the API server reports them, and what each report changed. A pod that reappears under the
// same name with another uid is a different pod. One thread.
class PodTable {
 public:
  PodChanges replace(std::vector<PodSeen> pods);  // after a complete list
  PodChanges apply(Change change, PodSeen pod);   // kAdded, kModified, kDeleted

  const PodSeen* find(const std::string& pod_namespace, const std::string& name) const;
  std::size_t size() const { return pods_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  void put(PodSeen pod, PodChanges& changes);

  std::map<Key, PodSeen> pods_;
};

}  // namespace tranche::kube
