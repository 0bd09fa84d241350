#pragma once
// Probes as pods, for looking at a node from outside: which pods to make by what the node agent says, and what their
// logs mean. Documents, pods and logs are not trusted; fuzzed. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "verify/deep.h"
#include "verify/report.h"

namespace tranche::verify {

inline constexpr const char* kRunLabel = "tranche.io/verify";  // on every pod that is made, with the run's word
inline constexpr const char* kTrialContainer = "verify";
inline constexpr const char* kNeighbourContainer = "neighbour";
inline constexpr std::uint32_t kNeighbourUser = 65534;  // nobody; the trial runs as the image does

struct ProbePod {
  std::string resource;
  std::string sms;         // of a slot, by GPU: "GPU-a=12,GPU-b=12"
  bool observed = false;   // the guard only tells
  bool neighbour = false;  // a second container with a slot of its own
};

struct ProbePods {
  std::vector<ProbePod> pods;      // one for each GPU, as far as slots are free
  std::vector<std::string> gpus;   // that they should reach
  Checks checks;                   // about GPUs that no pod is made for
};
ProbePods plan_probe_pods(const nlohmann::json& node_status);

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
  std::string why = {};          // kRefused: kubelet took it not, or its image cannot be had
  int neighbour_status = 0;      // exit status of its neighbour
  friend bool operator==(const PodView&, const PodView&) = default;
};
PodView view_pod(const nlohmann::json& pod);

// The report that a trial printed as JSON, among whatever else is there.
Result<Checks> checks_of_log(std::string_view log);

// A neighbour's log, for whom it was one: "deep.neighbour" and "deep.other-user" of its GPU; nothing when it is not one
// of `gpus`.
void judge_neighbour_log(const std::string& log, int status, const std::vector<std::string>& gpus, Checks& checks);

}  // namespace tranche::verify
