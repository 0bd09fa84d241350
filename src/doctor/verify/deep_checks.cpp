#include "doctor/verify/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kContext = 256;  // MiB that a context of a share may take, and some
constexpr const char* kSeeGuard = "`tranche status` shows what is enforced and why not (docs/internals/guard.md)";

std::string end_text(const ProbeRun& run) {
  if (!run.not_started.empty()) return run.not_started;
  std::string last;
  for (const auto line : lines_of(run.output))
    if (!line.empty() && !line.starts_with('{')) last = trimmed(line);
  const std::string end = run.timed_out ? "it did not end in time" : fmt::format("it ended with status {}", run.status);
  return last.empty() ? end : last + " (" + end + ")";
}

// The guard killed it, the relay refused it, or CUDA reported that there is no memory.
bool was_ended(const ProbeRun& run) {
  constexpr int kKilled = 128 + 9;
  if (run.status == kKilled && !run.timed_out) return true;
  constexpr std::array<std::string_view, 4> kErrors{"TERMINATED", "OUT_OF_MEMORY", "MPS_RPC_FAILURE", "MPS_SERVER"};
  return run.status == 1 && std::ranges::any_of(kErrors, [&](std::string_view error) {
           return run.output.find(error) != std::string::npos;
         });
}

enum class Outcome { kHad, kRefused, kEnded, kUnknown };

Outcome outcome_of(const ProbeRun& run) {
  const Json report = report_of(run);
  for (const Json& each : list_at(report, "allocations"))
    if (!truth_at(each, "granted")) return Outcome::kRefused;
  if (was_ended(run)) return Outcome::kEnded;
  if (run.status == 0 && !list_at(report, "allocations").empty()) return Outcome::kHad;
  return Outcome::kUnknown;
}

// The relay refuses a process whose environment lifts its memory limit (docs/internals/guard.md).
bool was_not_let_in(const ProbeRun& run) {
  return run.status == 1 && run.output.find("MPS_CONNECTION_FAILED") != std::string::npos;
}

// It ended in order, and what it computed is right.
bool computed_right(const ProbeRun& run) {
  const Json report = report_of(run);
  return run.status == 0 && report.is_object() && count_at(map_at(report, "answers"), "wrong") == 0;
}

std::uint64_t launches_of(const ProbeRun& run) {
  return count_at(map_at(report_of(run), "throughput"), "launches");
}

bool cannot_be_contained(const ProbeRun& run) {
  return !run.not_started.empty() || run.status == kNoContainer;
}

void unproven(const std::string& id, const DeepGrant& grant, const ProbeRun& run, Findings& checks) {
  if (cannot_be_contained(run))
    return checks.skip(id, grant.gpu, "a probe cannot run like a container here: " + end_text(run),
                       "run as root with CAP_SYS_ADMIN, on the node or in a privileged container");
  checks.fail(id, grant.gpu, "the probe failed: " + end_text(run), "see the log of tranche mps for its pool");
}

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

Json report_of(const ProbeRun& run) {
  for (const auto line : lines_of(run.output))
    if (line.starts_with('{')) return json_of(line);
  return {};
}

void skip_without_slot(const std::string& gpu, Findings& checks) {
  checks.skip("deep", gpu, "pods hold every slot of the GPU, so there is no free slot to test",
              "run this command again when a pod with a slot of the GPU has ended");
}

std::uint64_t within_mib(std::uint64_t memory_mib) {
  if (memory_mib <= 2 * kContext) return memory_mib / 2;
  return std::min(memory_mib * 95 / 100, memory_mib - kContext);
}

std::uint64_t beyond_mib(std::uint64_t memory_mib) {
  return memory_mib * 105 / 100 + 1;
}

bool has_tensor_cores(const ProbeRun& run) {
  constexpr std::uint64_t kFirst = 8;  // Ampere
  const std::string capability = text_at(map_at(report_of(run), "device"), "computeCapability");
  return parse_unsigned(capability.substr(0, capability.find('.'))).value_or(0) >= kFirst;
}

void judge_grant(const DeepGrant& grant, const ProbeRun& run, Findings& checks) {
  const Json report = report_of(run);
  if (!report.is_object() || run.status != 0) {
    unproven("deep.memory.within", grant, run, checks);
    return;
  }
  if (grant.memory_mib == 0) {
    checks.skip("deep.memory.within", grant.gpu, "its grants have no memory limit");
  } else {
    const auto within = within_mib(grant.memory_mib);
    checks.pass_or(Verdict::kFail, outcome_of(run) == Outcome::kHad, "deep.memory.within", grant.gpu,
                   fmt::format("{} of {} MiB allocated", within, grant.memory_mib),
                   fmt::format("{} MiB were refused, and the grant is {} MiB", within, grant.memory_mib),
                   "another process uses memory of this GPU: see nvidia-smi and `tranche status`");
  }
  const auto attribute = count_at(map_at(report, "sms"), "attribute"), seen = count_at(map_at(report, "sms"), "seen");
  if (grant.sms == 0) {
    checks.skip("deep.sms", grant.gpu, fmt::format("no SM limit is known of its grants; {} SMs", attribute));
  } else {
    checks.pass_or(Verdict::kFail, attribute == grant.sms && seen <= attribute, "deep.sms", grant.gpu,
                   fmt::format("{} SMs as granted, {} seen at work", attribute, seen),
                   fmt::format("{} SMs by attribute and {} seen at work, granted are {}", attribute, seen, grant.sms),
                   "report it with `tranche probe --json`: data/sm-counts.yaml may be wrong for this GPU");
  }
  const auto wrong = count_at(map_at(report, "answers"), "wrong"),
             checked = count_at(map_at(report, "answers"), "checked");
  checks.pass_or(Verdict::kFail, wrong == 0 && checked > 0, "deep.answers", grant.gpu,
                 fmt::format("{} words right", checked), fmt::format("{} of {} words wrong", wrong, checked),
                 "take this GPU out of use (devices.exclude)");
  if (!truth_at(map_at(report, "mps"), "connected"))
    checks.fail("deep.mps", grant.gpu, "the probe ran beside MPS, not through it",
                "check that the endpoint's pool serves: `tranche status`");
}

void judge_beyond(const std::string& id, const DeepGrant& grant, const std::string& means, const ProbeRun& run,
                  Findings& checks) {
  if (grant.memory_mib == 0) return checks.skip(id, grant.gpu, "its grants have no memory limit");
  const std::string tried = fmt::format("{} of {} MiB{}", beyond_mib(grant.memory_mib), grant.memory_mib,
                                        means.empty() ? "" : " with " + means);
  if (!means.empty() && was_not_let_in(run))
    return checks.pass(id, grant.gpu, tried + ": MPS did not admit the process");
  switch (outcome_of(run)) {
    case Outcome::kRefused:
      checks.pass(id, grant.gpu, tried + " were refused");
      break;
    case Outcome::kEnded:
      checks.pass(id, grant.gpu, tried + ": the process was ended");
      break;
    case Outcome::kHad:
      checks.fail(id, grant.gpu, tried + " were allocated, and kept for seconds", kSeeGuard);
      break;
    case Outcome::kUnknown:
      unproven(id, grant, run, checks);
      break;
  }
}

void judge_all_sms(const DeepGrant& grant, const ProbeRun& run, Findings& checks) {
  constexpr const char* kId = "deep.sms.variable";
  const auto attribute = count_at(map_at(report_of(run), "sms"), "attribute");
  if (grant.sms == 0) {
    checks.skip(kId, grant.gpu, "its grants have no SM limit");
  } else if (attribute == 0) {
    unproven(kId, grant, run, checks);
  } else {
    checks.pass_or(
        Verdict::kFail, attribute <= grant.sms, kId, grant.gpu,
        fmt::format("{} SMs also with CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100", attribute),
        fmt::format("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100 gave {} SMs, granted are {}", attribute, grant.sms),
        "the limits must be the server's: endpoint: relay (docs/guide/security.md)");
  }
}

void judge_second(const DeepGrant& grant, const ProbeRun& first, const ProbeRun& second, bool observed,
                  Findings& checks) {
  constexpr const char* kId = "deep.second-process";
  const std::string tried = fmt::format("two processes of a container with 60 % of {} MiB each", grant.memory_mib);
  if (grant.memory_mib == 0) return checks.skip(kId, grant.gpu, "its grants have no memory limit");
  for (const ProbeRun* run : {&first, &second}) {
    if (!cannot_be_contained(*run)) continue;
    unproven(kId, grant, *run, checks);
    return;
  }
  const auto a = outcome_of(first), b = outcome_of(second);
  const auto stopped = [](Outcome outcome) { return outcome == Outcome::kRefused || outcome == Outcome::kEnded; };
  if (stopped(a) || stopped(b)) {
    checks.pass(kId, grant.gpu, tried + ": one was refused or ended");
  } else if (a == Outcome::kUnknown || b == Outcome::kUnknown) {
    unproven(kId, grant, a == Outcome::kUnknown ? first : second, checks);
  } else if (observed) {
    checks.skip(kId, grant.gpu, tried + " both ran: guard.memory says observe");
  } else {
    checks.fail(kId, grant.gpu, tried + " both ran", kSeeGuard);
  }
}

void judge_user(const DeepGrant& grant, std::uint32_t user, const ProbeRun& run, Findings& checks) {
  if (run.status == 0 && report_of(run).is_object()) {
    checks.pass("deep.other-user", grant.gpu, fmt::format("a process of user {} computed beside root's", user));
  } else {
    unproven("deep.other-user", grant, run, checks);
  }
}

void judge_control(const DeepGrant& grant, const Result<std::string>& answer, Findings& checks) {
  constexpr const char* kId = "deep.control";
  if (!answer && answer.error().kind == Kind::kUnavailable) {
    checks.skip(kId, grant.gpu, "the control program cannot be run: " + to_string(answer.error()),
                "name it with --mps-control");
  } else {
    checks.pass_or(Verdict::kFail, !answer || !parse_unsigned(trimmed(*answer)), kId, grant.gpu,
                   "the endpoint accepts no control commands",
                   "the endpoint accepts control commands: any tenant can change the limits of all",
                   "sharing.mps.endpoint: relay; `tranche status` says why it is a link");
  }
}

void judge_deaths(const DeepGrant& grant, const DeathTries& tries, Findings& checks) {
  const auto add_failed = [&](const std::string& what) {
    checks.fail("deep.deaths", grant.gpu, what,
                "see that tranche-keeper is beside the program tranche and runs (<mps-root>/keeper.log), "
                "that tranche mps has CAP_SYS_PTRACE, and that the driver is 535 or newer");
  };
  ProbeRun harmed;
  std::size_t ended = 0;
  std::uint64_t launches = 0;
  for (const ProbeRun& run : tries.neighbours) {
    launches += launches_of(run);
    if (!computed_right(run) && ended++ == 0) harmed = run;
  }
  const std::string deaths = fmt::format("deaths with work in flight: {} of {}; ", tries.deaths, kDeaths);
  const std::string held = tries.not_held.empty() ? "" : "; tranche-keeper did not hold the client: " + tries.not_held;
  const std::string victim = tries.victim.status == 0 ? "" : "; " + end_text(tries.victim);
  if (!tries.skipped.empty()) {
    checks.skip("deep.deaths", grant.gpu, tries.skipped, "try again when two slots are free");
  } else if (tries.deaths > 0 && ended > 0) {
    add_failed(fmt::format("{}{} of {} neighbours did not survive: {}{}", deaths, ended, tries.neighbours.size(),
                           end_text(harmed), held));
  } else if (!tries.not_made.empty()) {
    add_failed(deaths + tries.not_made + victim + held);
  } else if (ended > 0 || tries.deaths == 0) {
    unproven("deep.deaths", grant, harmed, checks);
  } else if (!held.empty()) {
    add_failed(deaths + "the neighbours survived by chance" + held);
  } else {
    checks.pass("deep.deaths", grant.gpu,
                fmt::format("{}tranche-keeper released each client, and {} neighbours computed right all the "
                            "while, {} launches",
                            deaths, tries.neighbours.size(), launches));
  }
}

void judge_neighbour(const DeepGrant& grant, const ProbeRun& run, Findings& checks) {
  constexpr const char* kId = "deep.neighbour";
  if (run.status == 0 && report_of(run).is_object() && launches_of(run) == 0) {
    checks.skip(kId, grant.gpu, "the neighbour had not begun to compute");
  } else if (computed_right(run)) {
    checks.pass(kId, grant.gpu, fmt::format("a neighbour computed right all the while, {} launches", launches_of(run)));
  } else {
    unproven(kId, grant, run, checks);
  }
}

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

std::optional<ProbeRun> run_of_pod(const Json& pod) {
  ProbeRun run;
  const Json& status = map_at(pod, "status");
  const std::string phase = text_at(status, "phase");
  for (const Json& one : list_at(status, "containerStatuses")) {
    const Json& terminated = map_at(map_at(one, "state"), "terminated");
    run.status = static_cast<int>(count_at(terminated, "exitCode"));
    if (run.not_started.empty()) run.not_started = stuck(one);
  }
  // A pod that kubelet never began has no containers; its reason is kubelet's.
  const std::string reason = text_at(status, "reason");
  const bool refused = list_at(status, "containerStatuses").empty() || reason == "DeadlineExceeded";
  if (run.not_started.empty() && phase == "Failed" && refused)
    run.not_started = plain(reason + ": " + text_at(status, "message"));
  if (run.not_started.empty() && phase != "Succeeded" && phase != "Failed") return std::nullopt;
  return run;
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
