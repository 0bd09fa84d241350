// The node from outside (what the API server has, and what the agent's status page says through it), and from within
// (the status sockets of both programs, and the driver).
#include "doctor/verify/live/verify_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/json_text.h"
#include "base/text.h"
#include "config/live/config_source.h"
#include "doctor/finding.h"
#include "doctor/verify/checks.h"
#include "gpu/driver/driver.h"
#include "kube/access.h"
#include "kube/client/ask_once.h"
#include "kube/object.h"
#include "os/files/files.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

Result<Json> node_object(const kube::Access& access, const std::string& name) {
  TRY(const auto answer, kube::ask_once(access, &kube::KubeClient::get, kube::node_path(kube::percent_encoded(name))));
  if (answer.status == kube::http::kNotFound)
    return fail(Kind::kNotFound, "the cluster has no node " + name + "; `kubectl get nodes` lists them",
                access.server.url());
  if (answer.status != kube::http::kOk)
    return std::unexpected(kube::refusal(answer, "the API server does not show the node " + name, access.server.url()));
  Json node = json_of(answer.body);
  if (!node.is_object()) return fail(Kind::kInvalid, "the API server's answer is not a Node", access.server.url());
  return node;
}

constexpr Duration kStatusAnswer = std::chrono::seconds(5);

Json document(const std::string& socket) {
  return json_of(os::ask(socket, "status", kStatusAnswer).value_or(""));
}

constexpr int kUsage = 2;

VerifyPlaces places_of(const VerifyOptions& options, const config::Flags& flags) {
  const std::string root = flags.mps_root.empty() ? std::string(config::kDefaultMpsRoot) : flags.mps_root;
  return {root, options.mps_root_here.empty() ? root : options.mps_root_here, flags.plugin.container_driver_root};
}

Status write_file(const std::string& path, const std::string& content) {
  const auto [directory, name] = os::parts_of(path);
  TRY(const auto dir, os::Dir::open(directory));
  return dir.write_atomically(name, content, 0644);
}

int complain(const std::string& what) {
  fmt::print(stderr, "tranche verify: {}\n", what);
  return kUsage;
}

// What the API server has of the node; null: not readable.
struct ClusterLook {
  kube::Access access;
  Json agent;   // the pod of the status page
  Json status;  // of the node agent
};

// An Error: there is nothing to check, for example no API server.
Result<ClusterLook> look_at_cluster(const VerifyOptions& options, Findings& checks) {
  TRY(const auto access, kube::PersonsAccess(options.agents.kubeconfig, options.environment).get());
  TRY(const Json node, node_object(access, options.node));
  check_node(node, checks);
  observe::AgentsAsked asked = options.agents;
  asked.node = options.node;
  std::map<std::string, Json> pods;
  const auto agents = observe::agent_statuses(access, asked, [&](const Json& pod, const std::string& doubt) {
    check_pod(pod, doubt, checks);
    pods[kube::name_of(pod)] = pod;
  });
  ClusterLook look{access, {}, {}};
  if (!agents && agents.error().kind != Kind::kNotFound)
    return fail(agents.error().kind, fmt::format("{}. {}", agents.error().what, observe::kRightsToAskAgents),
                access.server.url());
  if (!agents) {
    checks.fail("agent.pods", asked.pod_namespace, agents.error().what,
                "see that the node matches the DaemonSet's nodeSelector and tolerations");
    return look;
  }
  const auto& agent = agents->front();
  if (!agent.document.empty()) {
    look.agent = pods[agent.pod];
    look.status = json_of(agent.document);
    check_node_against_agent(node, look.status, checks);
    check_agent(look.status, Json(), checks);
  } else if (agent.disputed) {
    checks.fail("agent.ready", "", agent.problem, "kubectl get pods -o wide: a node has one agent, with --node-name");
  } else {
    checks.skip(
        "agent.ready", "", "the agent's status page cannot be seen through the API server: " + agent.problem,
        "start tranche node with --listen :9400 and have the right to get pods/proxy, or run `tranche verify --local` "
        "on the node");
  }
  return look;
}

void look_here(const VerifyOptions& options, const config::Config& config, const VerifyPlaces& places,
               Findings& checks) {
  const std::string socket = options.run_dir + "/node.sock";
  const Json node = document(socket);
  const Json mps = document(places.mps_root_here + "/mps.sock");
  if (!node.is_object()) {
    checks.fail("agent.ready", "", "the node agent does not answer on " + socket,
                "start `tranche node`, or name its directory with --run-dir");
  } else {
    check_agent(node, mps, checks);
  }

  const auto nvml = gpu::nvml::Driver::open(gpu::driver_settings(config.flags, places.driver_root));
  const auto hardware = nvml ? (*nvml)->scan() : std::unexpected(nvml.error());
  if (!hardware) {
    checks.skip("hardware.gpu", "", "the driver cannot be asked from here: " + to_string(hardware.error()),
                "name where the driver's files are with --driver-root-ctr-path");
  } else if (node.is_object()) {
    check_hardware(*hardware, node, checks);
  }
}

// Probes as pods: made, asked for until they have ended, their logs read, and taken away again whatever happens.
constexpr Duration kLongestRun = std::chrono::seconds(150);  // until every pod has ended; pulling an image included
constexpr Duration kAskAgain = std::chrono::seconds(1);

class PodsRun {
 public:
  PodsRun(const VerifyOptions& options, const ClusterLook& cluster, kube::BlockingClient& server)
      : options_(options),
        cluster_(cluster),
        server_(server),
        loop_(*server.loop),
        run_(fmt::format("{:08x}", std::random_device()())),
        pods_(fmt::format("/api/v1/namespaces/{}/pods", kube::percent_encoded(namespace_of(cluster.agent)))) {}

  Status run(const std::vector<ProbePod>& wanted, const Json& overrides) {
    TRY_STATUS(loop_.on_signals({SIGINT, SIGTERM}, [this](int) {
      interrupted_ = true;
      loop_.stop();
    }));
    const Status made = make(wanted, overrides);
    if (made) wait();
    for (auto& [name, pod] : made_)
      if (made && !interrupted_ && pod.run->not_started.empty()) pod.run->output = log_of(name);
    take_away();
    if (interrupted_) return fail(Kind::kUnavailable, "interrupted; the probe pods are taken away", options_.node);
    return made;
  }

  struct Made {
    bool neighbour = false;
    std::optional<ProbeRun> run = {};  // absent: it is under way
  };
  const std::map<std::string, Made>& made() const { return made_; }

 private:
  Status make(const std::vector<ProbePod>& wanted, const Json& overrides) {
    for (const auto& pod : wanted) {
      if (interrupted_) break;
      const std::string name = fmt::format("tranche-verify-{}-{}", run_, made_.size());
      TRY(const Json object, make_probe_pod(cluster_.agent, pod, {options_.node, name, run_, overrides}));
      // A signal does not break it off, so that what was made is known.
      const auto answer = server_.ask(&kube::KubeClient::create, pods_, json_text(object));
      if (!kube::succeeded(answer)) {
        Error error = kube::refusal(answer, "no probe pod can be made", pods_);
        if (answer.status != 0)
          error.what += "; it needs the rights to create, list and delete pods there and to read their logs";
        return std::unexpected(std::move(error));
      }
      made_[name] = {.neighbour = pod.neighbour};
    }
    fmt::print(stderr, "{} made on {}; they take up to a minute\n", count_text(made_.size(), "probe pod"),
               options_.node);
    return {};
  }

  bool all_ended() const {
    return std::ranges::all_of(made_, [](const auto& entry) { return entry.second.run.has_value(); });
  }

  void wait() {
    const std::string list = pods_ + "?labelSelector=" + kube::percent_encoded(std::string(kRunLabel) + "=" + run_);
    os::Timer again(loop_);
    for (const auto late = loop_.now() + kLongestRun; !all_ended() && !interrupted_ && loop_.now() < late;) {
      again.start(kAskAgain, [this] { loop_.stop(); });
      loop_.run();
      const Json listed = json_of(server_.ask(&kube::KubeClient::list, list).body);
      for (const Json& object : list_at(listed, "items"))
        if (const auto known = made_.find(kube::name_of(object)); known != made_.end())
          known->second.run = run_of_pod(object);
    }
    for (auto& [name, pod] : made_)
      if (!pod.run)
        pod.run = {.not_started = fmt::format("it had not ended after {} s: kubectl describe pod says more while a run "
                                              "waits",
                                              std::chrono::duration_cast<std::chrono::seconds>(kLongestRun).count())};
  }

  std::string log_of(const std::string& name) {
    const auto answer =
        server_.ask(&kube::KubeClient::get, fmt::format("{}/{}/log?container={}", pods_, name, kProbeContainer));
    return answer.status == kube::http::kOk ? answer.body : "";
  }

  void take_away() {
    for (const auto& [name, pod] : made_) {
      const auto answer = server_.ask(&kube::KubeClient::remove, pods_ + "/" + name);
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

Status try_from_outside(const VerifyOptions& options, const ClusterLook& cluster, Findings& checks) {
  if (cluster.status.is_null()) {
    checks.skip("deep", "", "the node agent's status cannot be read, and the trials depend on it",
                "correct what failed above, or run `tranche verify --local --deep` on the node");
    return {};
  }
  TRY(const Json overrides, overrides_of(options.pod_overrides));
  const auto plan = plan_probe_pods(cluster.status);
  for (const auto& check : plan.checks) checks.add(check);
  if (plan.pods.empty()) return {};

  TRY(auto server, kube::BlockingClient::open(cluster.access));
  PodsRun run(options, cluster, server);
  TRY_STATUS(run.run(plan.pods, overrides));

  Findings trials;
  std::vector<ProbeRun> neighbours;
  for (const auto& [name, pod] : run.made()) {
    if (pod.neighbour) {
      if (pod.run->not_started.empty()) neighbours.push_back(*pod.run);
      continue;
    }
    if (!pod.run->not_started.empty()) {
      trials.skip("deep", name, "the pod did not run: " + pod.run->not_started,
                  "a pod may have taken the slot: try again; or see --pod-overrides");
      continue;
    }
    const auto trial = checks_of_log(pod.run->output);
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

}  // namespace

int run_verify(const VerifyOptions& options) {
  const int subjects =
      static_cast<int>(options.local) + static_cast<int>(options.inside) + static_cast<int>(!options.node.empty());
  if (subjects != 1)
    return complain(subjects == 0 ? "nothing to verify: give NODE, --local or --inside"
                                  : "more than one thing to verify: give one of NODE, --local and --inside");

  doctor::Report report{options.inside ? "this container" : options.local ? "this node" : "node " + options.node, {}};
  auto& checks = report.findings;
  if (!options.json)
    checks.on_add = [&options](const Finding& check) {
      fmt::print("{}", doctor::line_of(check, options.terminal));
      std::fflush(stdout);
    };

  Status looked;
  if (options.inside) {
    looked = try_inside(options, checks);
  } else if (!options.local) {
    const auto cluster = look_at_cluster(options, checks);
    if (!cluster)
      looked = std::unexpected(cluster.error());
    else if (options.deep)
      looked = try_from_outside(options, *cluster, checks);
  } else {
    const auto config = config::load_config(options);
    const auto places = places_of(options, config.config.flags);
    look_here(options, config.config, places, checks);
    if (options.deep) looked = try_limits(options, places, checks);
  }
  if (!looked) fmt::print(stderr, "tranche verify: {}\n", to_string(looked.error()));

  const bool began = looked.has_value() || !checks.empty();
  if (options.json || began) fmt::print("{}", options.json ? doctor::to_json(report) : doctor::summary_of(report));
  if (!options.junit.empty()) {
    if (const auto written = write_file(options.junit, doctor::to_junit(report)); !written)
      return complain("the JUnit file cannot be written: " + to_string(written.error()));
  }
  return looked ? doctor::exit_status(checks) : kUsage;
}

}  // namespace tranche::doctor
