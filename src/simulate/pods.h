#pragma once
// Pods as far as their devices are concerned: which containers ask for how many of which extended resource, and the
// names of the pod's claims. Read from what people write (Pods, Lists, the workloads that make pods) and from what an
// API server lists. Plain values and a pure reader; fuzzed.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"
#include "base/problem.h"

namespace tranche::simulate {

enum class Role {
  kInit,     // runs to its end before the next begins; its devices are used again
  kSidecar,  // an init container with restartPolicy: Always; keeps its devices
  kMain,
};
ENUM_NAMES(Role::kMain, "init", "sidecar", "main")

struct ContainerAsk {
  std::string name;
  Role role = Role::kMain;
  std::map<std::string, std::uint64_t> resources;  // extended ones, never 0
  friend bool operator==(const ContainerAsk&, const ContainerAsk&) = default;
};

struct PodAsk {
  std::string pod_namespace = "default";
  std::string name;
  std::string node_name = {};                 // the node that it is bound to; "" = none
  std::string created = {};                   // creationTimestamp as written, which sorts by time; "" in manifests
  bool over = false;                          // it has succeeded or failed: it holds nothing
  std::vector<ContainerAsk> containers = {};  // as kubelet serves them: init containers and sidecars come first
  std::vector<std::string> claims = {};       // names of its resourceClaims
  Place place = {};

  std::string full_name() const { return pod_namespace + "/" + name; }
  friend bool operator==(const PodAsk&, const PodAsk&) = default;
};

// An object of a kind that is not Kubernetes' own, or that resembles a workload's: it may make pods.
struct UnknownObject {
  std::string api_version;
  std::string kind;
  std::string object_namespace;
  std::string name;
  friend bool operator==(const UnknownObject&, const UnknownObject&) = default;
};

struct PodsRead {
  std::vector<PodAsk> pods;            // in file order, the replicas of a workload after one another
  std::vector<UnknownObject> unknown;  // in file order, without those whose pods are in the text; each is a warning
  std::vector<Problem> problems;
};

inline constexpr std::size_t kLargestPodsFile = std::size_t{32} << 20;
inline constexpr std::uint64_t kMostPods = 10'000;

// Several documents and Lists are taken apart. A workload becomes its replicas, named <workload>-0, -1 …; one whose
// own pods (or replica sets, or jobs) are in the text too adds nothing, because those count. Kubernetes' own kinds
// without pods, claims among them, are skipped. A text without pods and unknown objects is a Problem.
PodsRead read_pods(std::string_view text, std::string_view source);

// One page of an API server's list, where an empty one is not a Problem.
PodsRead read_pod_page(std::string_view body, std::string_view source);

}  // namespace tranche::simulate
