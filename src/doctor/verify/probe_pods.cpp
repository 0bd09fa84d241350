#include "doctor/verify/probe_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

constexpr int kNeighbourSeconds = 30;  // longer than a trial
constexpr int kLongestSeconds = 180;   // of a pod that is not deleted
constexpr std::size_t kMostChecks = 256;
constexpr std::size_t kLongestText = 1000;

// What a terminal would obey does not get there.
std::string plain(std::string text) {
  if (text.size() > kLongestText) text.resize(kLongestText);
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

// What a program of ours said went wrong; else everything.
std::string complaint(std::string_view log) {
  for (const auto line : lines_of(log))
    if (line.starts_with("tranche ")) return plain(std::string(line));
  return plain(std::string(trimmed(log)));
}

bool is_free(const Json& slot) {
  return text_at(slot, "holder").empty() && !text_at(slot, "id").empty();
}

Json container(const ProbePod& pod, const Json& like) {
  const Json trial = Json::array({"tranche", "verify", "--inside", "--json", "--sms", pod.sms});
  const Json beside = Json::array({"tranche", "probe", "--json", "--seconds", std::to_string(kNeighbourSeconds)});
  const std::string pull = text_at(like, "imagePullPolicy");
  Json made{{"name", kProbeContainer},
            {"image", text_at(like, "image")},
            {"imagePullPolicy", pull.empty() ? "IfNotPresent" : pull},
            {"command", pod.neighbour ? beside : trial},
            {"resources", {{"limits", {{pod.resource, "1"}}}}},
            {"securityContext",
             {{"allowPrivilegeEscalation", false},
              {"readOnlyRootFilesystem", true},
              {"capabilities", {{"drop", Json::array({"ALL"})}}}}}};
  if (pod.neighbour) {
    made["securityContext"]["runAsUser"] = kNeighbourUser;
    made["securityContext"]["runAsGroup"] = kNeighbourUser;
  } else if (pod.observed) {
    made["command"].push_back("--observed");
  }
  return made;
}

void lay_over(Json& pod, Json overrides) {
  if (!overrides.is_object()) return;
  auto spec = overrides.find("spec");
  if (spec != overrides.end() && spec->is_object()) {
    const Json& containers = list_at(*spec, "containers");
    const Json over = containers.empty() || !containers[0].is_object() ? Json() : containers[0];
    spec->erase("containers");
    if (over.is_object()) {
      Json& ours = pod["spec"]["containers"][0];
      ours.merge_patch(over);
      ours["name"] = kProbeContainer;
    }
  }
  pod.merge_patch(overrides);
}

// Why a container has not begun and will not.
std::string stuck(const Json& status) {
  constexpr std::array<std::string_view, 7> kFinal{
      "ErrImagePull",         "ImagePullBackOff",           "InvalidImageName", "ErrImageNeverPull",
      "CreateContainerError", "CreateContainerConfigError", "RunContainerError"};
  const Json& waiting = map_at(map_at(status, "state"), "waiting");
  const std::string reason = text_at(waiting, "reason");
  if (std::ranges::find(kFinal, reason) == kFinal.end()) return {};
  return plain(reason + ": " + text_at(waiting, "message"));
}

}  // namespace

ProbePods plan_probe_pods(const Json& node_status) {
  struct Shared {
    std::vector<std::string> gpus;
    std::string sms;
    std::size_t free = 0;
  };
  ProbePods plan;
  std::map<std::string, Shared> resources;
  for (const Json& device : list_at(node_status, "devices")) {
    const std::string gpu = plain(text_at(device, "uuid"));
    if (text_at(device, "sharing") != "mps") {
      plan.checks.skip("deep", gpu, "the GPU is not shared by MPS, so it has no limits to test");
      continue;
    }
    auto& shared = resources[text_at(device, "resource")];
    shared.gpus.push_back(gpu);
    shared.sms += fmt::format("{}{}={}", shared.sms.empty() ? "" : ",", gpu, count_at(device, "slotSms"));
    shared.free += static_cast<std::size_t>(std::ranges::count_if(list_at(device, "slots"), is_free));
  }
  for (const auto& [resource, shared] : resources) {
    const std::size_t count = std::min(shared.free, shared.gpus.size());
    const bool observed = text_at(map_at(map_at(node_status, "guard"), "memory"), resource) == "observe";
    // Neighbours first, so that they compute by the time of the trials; and each kind by itself, because kubelet's
    // choices in a row go to one GPU after the other.
    for (const bool neighbour : {true, false}) {
      if (neighbour && shared.free < 2 * shared.gpus.size()) continue;
      for (std::size_t n = 0; n < count; ++n) plan.pods.push_back({resource, shared.sms, observed, neighbour});
    }
    for (const auto& gpu : shared.gpus) {
      if (count > 0)
        plan.gpus.push_back(gpu);
      else
        skip_without_slot(gpu, plan.checks);
    }
  }
  return plan;
}

std::string namespace_of(const Json& pod) {
  return text_at(map_at(pod, "metadata"), "namespace");
}

Result<Json> make_probe_pod(const Json& like, const ProbePod& pod, const ProbePodPlace& place) {
  const Json& spec = map_at(like, "spec");
  const Json& containers = list_at(spec, "containers");
  if (containers.empty() || text_at(containers[0], "image").empty())
    return fail(Kind::kInvalid, "the agent's pod names no image", text_at(map_at(like, "metadata"), "name"));
  Json made{{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata",
             {{"name", place.name},
              {"namespace", namespace_of(like)},
              {"labels", {{"app.kubernetes.io/name", "tranche-verify"}, {kRunLabel, place.run}}}}},
            {"spec",
             {{"nodeName", place.node},
              {"restartPolicy", "Never"},
              {"activeDeadlineSeconds", kLongestSeconds},
              {"terminationGracePeriodSeconds", 5},
              {"automountServiceAccountToken", false},
              {"enableServiceLinks", false},
              {"tolerations", Json::array({Json{{"operator", "Exists"}}})},
              {"securityContext", {{"seccompProfile", {{"type", "RuntimeDefault"}}}}},
              {"containers", Json::array({container(pod, containers[0])})}}}};
  for (const char* key : {"runtimeClassName", "imagePullSecrets"})
    if (spec.contains(key)) made["spec"][key] = spec[key];
  lay_over(made, place.overrides);
  return made;
}

PodView view_pod(const Json& pod) {
  PodView view{.name = text_at(map_at(pod, "metadata"), "name")};
  const Json& status = map_at(pod, "status");
  const std::string phase = text_at(status, "phase");
  for (const Json& one : list_at(status, "containerStatuses")) {
    const Json& terminated = map_at(map_at(one, "state"), "terminated");
    view.status = static_cast<int>(count_at(terminated, "exitCode"));
    if (view.why.empty()) view.why = stuck(one);
  }
  if (!view.why.empty()) {
    view.phase = PodPhase::kRefused;
  } else if (phase == "Succeeded") {
    view.phase = PodPhase::kEnded;
  } else if (phase == "Failed") {
    // A pod that kubelet never began has no containers; its reason is kubelet's.
    const bool began = !list_at(status, "containerStatuses").empty();
    view.phase = began && text_at(status, "reason") != "DeadlineExceeded" ? PodPhase::kEnded : PodPhase::kRefused;
    if (view.phase == PodPhase::kRefused)
      view.why = plain(text_at(status, "reason") + ": " + text_at(status, "message"));
  }
  return view;
}

Result<Findings> checks_of_log(std::string_view log) {
  const auto begin = log.starts_with('{') ? 0 : log.find("\n{");
  const auto end = log.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin)
    return fail(Kind::kInvalid, "the probe printed no report: " + complaint(log), "its log");
  const Json report = json_of(log.substr(begin, end + 1 - begin));
  if (!report.is_object() || list_at(report, "checks").empty())
    return fail(Kind::kInvalid, "the probe's report has no checks: " + complaint(log), "its log");
  Findings checks;
  for (const Json& one : list_at(report, "checks")) {
    const std::string word = text_at(one, "verdict");
    const auto verdict = word == "PASS" ? Verdict::kPass : word == "FAIL" ? Verdict::kFail : Verdict::kSkip;
    if (checks.size() < kMostChecks)
      checks.add({verdict, plain(text_at(one, "id")), plain(text_at(one, "about")), plain(text_at(one, "what")),
                  plain(text_at(one, "remedy"))});
  }
  return checks;
}

void judge_neighbours(const std::vector<ProbeRun>& runs, const std::vector<std::string>& gpus, Findings& checks) {
  std::map<std::string, const ProbeRun*> by_gpu;
  for (const auto& run : runs) by_gpu[text_at(map_at(report_of(run), "device"), "uuid")] = &run;
  for (const auto& gpu : gpus) {
    const auto found = by_gpu.find(gpu);
    if (found != by_gpu.end()) {
      judge_user({.gpu = gpu}, kNeighbourUser, *found->second, checks);
      judge_neighbour({.gpu = gpu}, *found->second, checks);
    } else {
      for (const char* id : {"deep.other-user", "deep.neighbour"})
        checks.skip(id, gpu, "no neighbour computed there: too few slots are free, or kubelet chose others",
                    "try again when two slots of each GPU are free");
    }
  }
}

}  // namespace tranche::doctor
