#pragma once
// The little that is wanted of a pod: who it is, whether it is going, and its containers. Everything else in the object
// is left where it is. Pure; fuzzed.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tranche::kube {

struct ContainerSeen {
  std::string name;
  std::string container_id;  // "containerd://…", "" while there is none
  bool ready = false;
  bool started = false;
  bool ended = false;                      // it has terminated; it may be started again
  std::vector<std::string> pre_stop = {};  // its preStop hook's command, when it has an exec hook
  std::int64_t pre_stop_sleep = 0;         // seconds, when it has a sleep hook
  std::string stop_signal = {};            // "SIGTERM"; "" where kubelet does not tell
  friend bool operator==(const ContainerSeen&, const ContainerSeen&) = default;
};

// The limits that a container's own manifest sets for MPS, as far as they are written there plainly.
struct MpsWordsSeen {
  std::string container;
  std::optional<std::string> threads;  // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
  std::optional<std::string> memory;   // CUDA_MPS_PINNED_DEVICE_MEM_LIMIT
  friend bool operator==(const MpsWordsSeen&, const MpsWordsSeen&) = default;
};

// A ResourceClaim that the pod uses, and by which container. The object's name: it may be made from a template.
struct ClaimUseSeen {
  std::string claim = {};
  std::string container = {};  // "": the pod names the claim, and no container does
  std::string request = {};    // "": all of the claim's
  friend bool operator==(const ClaimUseSeen&, const ClaimUseSeen&) = default;
};

struct PodSeen {
  std::string pod_namespace;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string node_name;
  std::string phase;                      // "Pending", "Running", "Succeeded", "Failed", "Unknown"
  bool mirror = false;                    // kubelet's picture of a pod from a file: deleting it stops nothing
  bool deleting = false;                  // it has a deletionTimestamp: SIGTERM comes now
  std::optional<MonoTime> deletion_seen;  // when this process saw that first; set by PodTable
  std::optional<std::int64_t> deletion_grace_seconds;
  std::vector<ContainerSeen> containers;  // as kubelet reports them; empty before it does. Init containers come first

  std::vector<MpsWordsSeen> mps_words = {};  // of the containers that have some
  std::vector<ClaimUseSeen> claims = {};

  bool over() const { return phase == "Succeeded" || phase == "Failed"; }
  friend bool operator==(const PodSeen&, const PodSeen&) = default;
};

// kInvalid, with the field, when what names the pod is not there or is of another type.
Result<PodSeen> read_pod(const nlohmann::json& object);

struct PodPage {
  std::vector<PodSeen> pods;
  std::string resource_version;
  std::string next;                    // the token for the next page, "" on the last
  std::vector<std::string> malformed;  // entries that are left out, each with the reason
};
Result<PodPage> parse_pod_list(std::string_view body);

}  // namespace tranche::kube
