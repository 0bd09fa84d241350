#pragma once
// Probes as pods, for a check of a node from outside: decides by the node agent's status which pods to create, and
// judges their logs. Does not trust documents, pods and logs; fuzzed. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "doctor/finding.h"
#include "doctor/verify/deep.h"

namespace tranche::doctor {

inline constexpr const char* kRunLabel = "tranche.io/verify";  // on every probe pod, with the name of the run
inline constexpr const char* kProbeContainer = "probe";
inline constexpr std::uint32_t kNeighbourUser = 65534;  // without rights; a trial runs as the image's user

struct ProbePod {
  std::string resource;
  std::string sms;         // of a slot, by GPU: "GPU-a=12,GPU-b=12"
  bool observed = false;   // the guard reports and does not end processes
  bool neighbour = false;  // it computes beside a trial
};

struct ProbePods {
  std::vector<ProbePod> pods;     // neighbours, then a trial for each GPU, if slots are free
  std::vector<std::string> gpus;  // UUIDs that the pods must reach
  Findings checks;                // about GPUs without a probe pod
};
ProbePods plan_probe_pods(const nlohmann::json& node_status);

std::string namespace_of(const nlohmann::json& pod);

struct ProbePodPlace {
  std::string node;
  std::string name;
  std::string run;
  const nlohmann::json& overrides;  // merged into the pod, its first container into each container; null: none
};
// With the image, pull secrets, runtime class and namespace of the pod `like`. kInvalid: that pod has no container.
Result<nlohmann::json> make_probe_pod(const nlohmann::json& like, const ProbePod& pod, const ProbePodPlace& place);

enum class PodPhase { kUnderWay, kEnded, kRefused };
struct PodView {
  std::string name;
  PodPhase phase = PodPhase::kUnderWay;
  std::string why = {};  // kRefused: kubelet refused the pod, or cannot pull its image
  int status = 0;        // exit status
  friend bool operator==(const PodView&, const PodView&) = default;
};
PodView view_pod(const nlohmann::json& pod);

// The JSON report in the log of a trial, which may hold other lines.
Result<Findings> checks_of_log(std::string_view log);

// "deep.other-user" and "deep.neighbour" for each of `gpus`, skipped for GPUs without a neighbour.
void judge_neighbours(const std::vector<ProbeRun>& runs, const std::vector<std::string>& gpus, Findings& checks);

}  // namespace tranche::doctor
