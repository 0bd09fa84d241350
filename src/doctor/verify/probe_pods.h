#pragma once
// Probes as pods, for looking at a node from outside: which pods to make by what the node agent says, and what their
// logs mean. Documents, pods and logs are not trusted; fuzzed. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "doctor/finding.h"
#include "doctor/verify/deep.h"

namespace tranche::verify {

inline constexpr const char* kRunLabel = "tranche.io/verify";  // on every pod that is made, with the run's word
inline constexpr const char* kProbeContainer = "probe";
inline constexpr std::uint32_t kNeighbourUser = 65534;  // nobody; a trial runs as the image does

struct ProbePod {
  std::string resource;
  std::string sms;         // of a slot, by GPU: "GPU-a=12,GPU-b=12"
  bool observed = false;   // the guard only reports
  bool neighbour = false;  // it computes beside a trial
};

struct ProbePods {
  std::vector<ProbePod> pods;     // a trial for each GPU, and neighbours first, as far as slots are free
  std::vector<std::string> gpus;  // that they should reach
  Findings checks;                // about GPUs that no pod is made for
};
ProbePods plan_probe_pods(const nlohmann::json& node_status);

std::string namespace_of(const nlohmann::json& pod);

struct ProbePodPlace {
  std::string node;
  std::string name;
  std::string run;
  const nlohmann::json& overrides;  // merged over the pod, its first container over each of ours; null: none
};
// With image, pull secrets, runtime class and namespace of the pod `like`. kInvalid when that has no container.
Result<nlohmann::json> make_probe_pod(const nlohmann::json& like, const ProbePod& pod, const ProbePodPlace& place);

enum class PodPhase { kUnderWay, kEnded, kRefused };
struct PodView {
  std::string name;
  PodPhase phase = PodPhase::kUnderWay;
  std::string why = {};  // kRefused: kubelet took it not, or its image cannot be had
  int status = 0;        // exit status
  friend bool operator==(const PodView&, const PodView&) = default;
};
PodView view_pod(const nlohmann::json& pod);

// The report that a trial printed as JSON, among whatever else is there.
Result<Findings> checks_of_log(std::string_view log);

// "deep.other-user" and "deep.neighbour" of each of `gpus`, skipped where no neighbour was on it.
void judge_neighbours(const std::vector<ProbeRun>& runs, const std::vector<std::string>& gpus, Findings& checks);

}  // namespace tranche::verify
