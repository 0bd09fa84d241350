// Probes as pods: made, watched until they have ended, their logs read, and taken away again whatever happens.
#include <fmt/format.h>

#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/json_text.h"
#include "base/text.h"
#include "doctor/verify/live/trials.h"
#include "doctor/verify/probe_pods.h"
#include "kube/client/ask_once.h"
#include "kube/client/list_watch.h"
#include "kube/object.h"
#include "kube/url.h"
#include "os/files/files.h"
#include "os/loop/loop.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

constexpr Duration kLongestRun = std::chrono::seconds(150);  // until every pod has ended; pulling an image included
constexpr Duration kWatchAgain = std::chrono::seconds(1);

std::string random_word() {
  std::random_device device;
  return hex16((static_cast<std::uint64_t>(device()) << 32) | device()).substr(0, 8);
}

class PodsRun {
 public:
  PodsRun(const VerifyOptions& options, const ClusterLook& cluster, kube::BlockingClient& server)
      : options_(options),
        cluster_(cluster),
        server_(server),
        loop_(*server.loop),
        run_(random_word()),
        pods_(fmt::format("/api/v1/namespaces/{}/pods", kube::percent_encoded(namespace_of(*cluster.agent)))) {}

  Status run(const std::vector<ProbePod>& wanted, const Json& overrides) {
    TRY_STATUS(loop_.on_signals({SIGINT, SIGTERM}, [this](int) {
      interrupted_ = true;
      loop_.stop();
    }));
    const Status made = make(wanted, overrides);
    if (made) watch();
    for (auto& [name, pod] : made_)
      if (made && !interrupted_ && pod.view.phase != PodPhase::kRefused) pod.log = log_of(name);
    take_away();
    if (interrupted_) return fail(Kind::kUnavailable, "interrupted; the probe pods are taken away", options_.node);
    return made;
  }

  struct Made {
    PodView view;
    std::string log;
    bool neighbour = false;
  };
  const std::map<std::string, Made>& made() const { return made_; }

 private:
  Status make(const std::vector<ProbePod>& wanted, const Json& overrides) {
    for (const auto& pod : wanted) {
      if (interrupted_) break;
      const std::string name = fmt::format("tranche-verify-{}-{}", run_, made_.size());
      TRY(const Json object, make_probe_pod(*cluster_.agent, pod, {options_.node, name, run_, overrides}));
      // A signal does not break it off, so that what was made is known.
      const auto answer =
          server_.ask([&](auto& client, auto done) { client.create(pods_, json_text(object), std::move(done)); });
      if (answer.status == 0) return fail(Kind::kUnavailable, "the API server does not answer: " + answer.why, pods_);
      if (answer.status != kube::http::kCreated && answer.status != kube::http::kOk)
        return fail(Kind::kDenied,
                    fmt::format("no probe pod can be made: {} ({}); it needs the rights to create, watch and delete "
                                "pods there and to read their logs",
                                kube::why_not(answer), answer.status),
                    pods_);
      made_[name] = {.view = {.name = name}, .log = {}, .neighbour = pod.neighbour};
    }
    fmt::print(stderr, "{} made on {}; they take up to a minute\n", count_text(made_.size(), "probe pod"),
               options_.node);
    return {};
  }

  bool all_ended() const {
    return std::ranges::all_of(made_, [](const auto& entry) { return entry.second.view.phase != PodPhase::kUnderWay; });
  }

  Status see(const Json& object) {
    const auto view = view_pod(object);
    if (const auto known = made_.find(view.name); known != made_.end()) known->second.view = view;
    return {};
  }

  void watch() {
    bool late = false;
    os::Timer deadline(loop_);
    deadline.start(kLongestRun, [&] {
      late = true;
      loop_.stop();
    });
    const auto saw = [this](const Json& object) { return see(object); };
    const auto changed = [this](kube::Change change, const Json& object) {
      return change == kube::Change::kDeleted ? Status{} : see(object);
    };
    const auto on_turn = [this] {
      if (all_ended()) loop_.stop();
    };
    const kube::ListWatch pods(
        loop_, *server_.client, pods_,
        {.selector = "labelSelector=" + kube::percent_encoded(std::string(kRunLabel) + "=" + run_),
         .most_wait = kWatchAgain},
        {.on_page = [&](std::string_view body, bool) { return kube::parse_list(body, saw); },
         .on_line = [&](std::string_view line) { return kube::parse_watch_line(line, changed); },
         .on_turn = on_turn});
    while (!all_ended() && !late && !interrupted_) loop_.run();
    for (auto& [name, pod] : made_) {
      if (pod.view.phase != PodPhase::kUnderWay) continue;
      pod.view.phase = PodPhase::kRefused;
      pod.view.why = fmt::format("it had not ended after {} s: kubectl describe pod says more while a run waits",
                                 std::chrono::duration_cast<std::chrono::seconds>(kLongestRun).count());
    }
  }

  std::string log_of(const std::string& name) {
    const auto answer = server_.ask([&](auto& client, auto done) {
      client.get(fmt::format("{}/{}/log?container={}", pods_, name, kProbeContainer), std::move(done));
    });
    return answer.status == kube::http::kOk ? answer.body : "";
  }

  void take_away() {
    for (const auto& [name, pod] : made_) {
      const auto answer =
          server_.ask([&](auto& client, auto done) { client.remove(pods_ + "/" + name, std::move(done)); });
      if (!kube::succeeded(answer))  // it ends by its own deadline
        fmt::print(stderr, "tranche verify: pod {} could not be deleted ({}): kubectl delete pod -l {}={}\n", name,
                   answer.status == 0 ? answer.why : std::to_string(answer.status), kRunLabel, run_);
    }
  }

  const VerifyOptions& options_;
  const ClusterLook& cluster_;
  kube::BlockingClient& server_;
  os::Loop& loop_;
  const std::string run_;
  const std::string pods_;
  std::map<std::string, Made> made_;
  bool interrupted_ = false;
};

Result<Json> overrides_of(const std::string& path) {
  if (path.empty()) return Json();
  TRY(const auto text, os::read_file(path));
  Json overrides = json_of(text);
  if (!overrides.is_object())
    return fail(Kind::kInvalid, "not a JSON object; write for example {\"spec\": {\"runtimeClassName\": \"nvidia\"}}",
                path);
  return overrides;
}

}  // namespace

Status try_from_outside(const VerifyOptions& options, const ClusterLook& cluster, Findings& checks) {
  if (!cluster.status) {
    checks.skip("deep", "", "the node agent's status cannot be read, and the trials depend on it",
                "correct what failed above, or run `tranche verify --local --deep` on the node");
    return {};
  }
  TRY(const Json overrides, overrides_of(options.pod_overrides));
  const auto plan = plan_probe_pods(*cluster.status);
  for (const auto& check : plan.checks) checks.add(check);
  if (plan.pods.empty()) return {};

  TRY(auto server, kube::BlockingClient::open(cluster.access));
  PodsRun run(options, cluster, server);
  TRY_STATUS(run.run(plan.pods, overrides));

  Findings trials;
  std::vector<ProbeRun> neighbours;
  for (const auto& [name, pod] : run.made()) {
    if (pod.neighbour) {
      if (pod.view.phase == PodPhase::kEnded) neighbours.push_back({.status = pod.view.status, .output = pod.log});
      continue;
    }
    if (pod.view.phase == PodPhase::kRefused) {
      trials.skip("deep", name, "the pod did not run: " + pod.view.why,
                  "a pod may have taken the slot: try again; or see --pod-overrides");
      continue;
    }
    const auto trial = checks_of_log(pod.log);
    if (trial)
      trials.insert(trials.end(), trial->begin(), trial->end());
    else
      trials.fail("deep", name, to_string(trial.error()),
                  "see that the driver's libraries come into containers: docs/guide/troubleshoot.md");
  }
  std::vector<std::string> reached;
  for (const auto& gpu : plan.gpus)
    if (std::ranges::any_of(trials, [&](const Finding& check) { return check.about == gpu; }))
      reached.push_back(gpu);
    else
      trials.skip("deep", gpu, "kubelet gave no probe pod a slot of this GPU", "try again");
  judge_neighbours(neighbours, reached, trials);
  for (const auto& gpu : reached)
    trials.skip("deep.deaths", gpu, "only a process on the node sees what tranche-keeper holds",
                "run `tranche verify --local --deep` on the node");
  for (const auto& check : trials) checks.add(check);
  return {};
}

}  // namespace tranche::doctor
