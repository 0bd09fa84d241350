#pragma once
// Pods as far as their devices are concerned: which containers ask for how many of which extended resource, and which
// claims they use. Read from what people write (Pods, Lists, the workloads that make pods) and from what an API server
// lists. Plain values and a pure reader; fuzzed.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "simulate/claims.h"

namespace tranche::simulate {

enum class Role {
  kInit,     // runs to its end before the next begins; its devices are used again
  kSidecar,  // an init container with restartPolicy: Always; keeps its devices
  kMain,
};
std::string_view to_string(Role role);  // "init", "sidecar", "main"

// A claim by the name that the pod's containers use.
struct PodClaim {
  std::string name;
  std::string claim;          // of a ResourceClaim; "": one is made from a template
  std::string from_template;  // of a ResourceClaimTemplate
  friend bool operator==(const PodClaim&, const PodClaim&) = default;
};

struct ClaimUse {
  std::string name;     // PodClaim::name
  std::string request;  // "": all of the claim
  friend bool operator==(const ClaimUse&, const ClaimUse&) = default;
};

struct ContainerAsk {
  std::string name;
  Role role = Role::kMain;
  std::map<std::string, std::uint64_t> resources;  // extended ones, never 0
  std::vector<ClaimUse> claims = {};
  friend bool operator==(const ContainerAsk&, const ContainerAsk&) = default;
};

struct PodAsk {
  std::string pod_namespace = "default";
  std::string name;
  std::string node_name = {};                 // the node that it is bound to; "" = none
  std::string created = {};                   // creationTimestamp as written, which sorts by time; "" in manifests
  bool over = false;                          // it has succeeded or failed: it holds nothing
  std::vector<ContainerAsk> containers = {};  // as kubelet serves them: init containers and sidecars come first
  std::vector<PodClaim> claims = {};
  Place place = {};

  std::string full_name() const { return pod_namespace + "/" + name; }
  friend bool operator==(const PodAsk&, const PodAsk&) = default;
};

struct PodsRead {
  std::vector<PodAsk> pods;  // in file order, the replicas of a workload after one another
  ClaimObjects objects;
  std::vector<Problem> problems;
};

inline constexpr std::size_t kLargestPodsFile = std::size_t{32} << 20;
inline constexpr std::uint64_t kMostPods = 10'000;

// Several documents and Lists are taken apart. A workload stands for its replicas, named <workload>-0, -1 …; one whose
// own pods (or replica sets, or jobs) are in the text too stands for nothing, since those count. Kinds without pods are
// read over. A text without any pod is a Problem.
PodsRead read_pods(std::string_view text, std::string_view source);

// One page of an API server's list, where an empty one is no Problem.
PodsRead read_pod_page(std::string_view body, std::string_view source);

}  // namespace tranche::simulate
