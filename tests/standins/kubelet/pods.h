#pragma once
// Pods in Kubernetes manifests, as far as a node without images can run them: kinds Pod, Deployment and Job;
// metadata.name/namespace/labels, spec.restartPolicy, spec.terminationGracePeriodSeconds and containers with name,
// command, args, env and resources. Other Kubernetes fields (image, volumes, probes …) are ignored; a field that
// Kubernetes does not know is a warning. Pure values, no YAML types.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"

namespace tranche::sim {

enum class RestartPolicy { kAlways, kOnFailure, kNever };

struct PodContainer {
  std::string name{};
  std::vector<std::string> command{};  // never empty: there is no image with an entry point
  std::vector<std::string> args{};
  std::vector<std::pair<std::string, std::string>> env{};  // in order, as later ones may refer to earlier ones
  std::map<std::string, std::uint64_t> resources{};        // extended resources only
  friend bool operator==(const PodContainer&, const PodContainer&) = default;
};

struct PodSpec {
  std::string pod_namespace = "default";
  std::string name{};
  std::string owner{};  // "Deployment/web", "Job/train", "" for a bare pod
  std::map<std::string, std::string> labels{};
  RestartPolicy restart = RestartPolicy::kAlways;
  int grace_seconds = 30;
  std::vector<PodContainer> containers{};
  friend bool operator==(const PodSpec&, const PodSpec&) = default;
};

struct PodsFile {
  std::vector<PodSpec> pods{};  // in order; replicas and completions unrolled as "<name>-0", "<name>-1" …
  std::vector<Problem> problems{};
};

// Never throws. A document with an error yields no pods; the others do.
PodsFile parse_pods(std::string_view yaml, const std::string& source);

}  // namespace tranche::sim
