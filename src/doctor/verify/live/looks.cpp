// The node from outside (what the API server has, and what the agent's status page says through it), from within (the
// status sockets of both programs, and the driver), and the share that this container holds, tried from where it is
// used.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "config/live/driver_settings.h"
#include "doctor/verify/check_groups.h"
#include "doctor/verify/live/looks.h"
#include "dra/claim_spec.h"
#include "gpu/driver/driver.h"
#include "grants/allocate/grant.h"
#include "kube/api_status.h"
#include "kube/client/ask_once.h"
#include "kube/node_condition.h"
#include "kube/object.h"
#include "kube/url.h"
#include "os/files/files.h"
#include "os/socket/status_socket.h"
#include "plan/client_limits.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

Result<Json> node_object(const kube::Access& access, const std::string& name) {
  TRY(const auto answer, kube::get_once(access, kube::node_path(kube::percent_encoded(name))));
  if (answer.status == kube::http::kNotFound)
    return fail(Kind::kNotFound, "the cluster has no node " + name + "; `kubectl get nodes` lists them",
                access.server.url());
  if (answer.status != kube::http::kOk)
    return fail(
        Kind::kDenied,
        fmt::format("the API server does not show the node {}: {} ({})", name, kube::why_not(answer), answer.status),
        access.server.url());
  Json node = json_of(answer.body);
  if (!node.is_object()) return fail(Kind::kInvalid, "the API server's answer is not a Node", access.server.url());
  return node;
}

constexpr Duration kStatusAnswer = std::chrono::seconds(5);
constexpr std::size_t kLargestSpec = 1 << 20;

Json document(const std::string& socket) {
  const auto answer = os::ask(socket, "status", kStatusAnswer);
  Json json = answer ? json_of(*answer) : Json();
  return json.is_object() ? json : Json();
}

// By file name; those that cannot be read are not there.
std::map<std::string, std::string> claim_specs(const std::string& cdi_root) {
  std::map<std::string, std::string> files;
  for (const auto& name : os::names_in(cdi_root)) {
    if (!dra::is_claim_spec_file(name)) continue;
    if (auto text = os::read_file(cdi_root + "/" + name, kLargestSpec)) files[name] = *std::move(text);
  }
  return files;
}

// "12", or "GPU-a=12,GPU-b=14".
Result<std::uint64_t> sms_of(const std::string& text, const std::string& gpu) {
  if (text.empty()) return 0;
  for (const auto part : split(text, ',')) {
    const auto equals = part.find('=');
    const auto number = parse_unsigned(equals == std::string_view::npos ? part : part.substr(equals + 1));
    if (!number) return fail(Kind::kInvalid, "--sms: not \"12\" nor \"GPU-a=12,GPU-b=14\"", text);
    if (equals == std::string_view::npos || part.substr(0, equals) == gpu) return *number;
  }
  return 0;
}

// By a probe that is asked for nothing.
Result<std::string> gpu_seen(Probes& probes, const GrantHere& grant) {
  const auto run = probes.run(grant, {"--seconds", "0"});
  if (auto uuid = text_at(map_at(report_of(run), "device"), "uuid"); !uuid.empty()) return uuid;
  return fail(Kind::kUnavailable,
              "CUDA does not start here: " + std::string(run.output.empty() ? run.not_started : trimmed(run.output)),
              "tranche probe");
}

Result<std::vector<DeepGrant>> grants_here(const VerifyOptions& options, Probes& probes, const GrantHere& grant) {
  std::vector<DeepGrant> grants;
  TRY(const auto gpu, gpu_seen(probes, grant));  // it starts at all
  const std::string limit = config::variable(options.environment, plan::kPinnedLimitVariable);
  if (limit.empty()) {
    grants.push_back({.gpu = gpu});
  } else {
    TRY(const auto limits, plan::parse_pinned_limit(limit));
    for (const auto& [device, memory] : limits) grants.push_back({.gpu = device, .memory_mib = memory.in_mib()});
  }
  for (auto& one : grants) {
    TRY(one.sms, sms_of(options.sms, one.gpu));
  }
  return grants;
}

}  // namespace

Result<ClusterLook> look_at_cluster(const VerifyOptions& options, Findings& checks) {
  TRY(const auto access, kube::PersonsAccess(options.kubeconfig, options.environment).get());
  TRY(const Json node, node_object(access, options.node));
  check_node(node, checks);
  observe::AgentsAsked asked = options.agents;
  asked.node = options.node;
  std::map<std::string, Json> pods;
  const auto agents = observe::agent_statuses(access, asked, [&](const Json& pod, const std::string& doubt) {
    check_pod(pod, doubt, checks);
    pods[kube::name_of(pod)] = pod;
  });
  const bool none = !agents && agents.error().kind == Kind::kNotFound;
  ClusterLook look{access, {}, {}};
  if (none) {
    checks.fail("agent.pods", asked.pod_namespace, agents.error().what,
                "see that the node matches the DaemonSet's nodeSelector and tolerations");
  } else if (agents && !agents->front().document.empty()) {
    look.agent = std::make_shared<const Json>(pods[agents->front().pod]);
    look.status = std::make_shared<const Json>(json_of(agents->front().document));
    check_node_against_agent(node, *look.status, checks);
    check_agent(*look.status, Json(), checks);
  } else if (agents && agents->front().disputed) {
    checks.fail("agent.ready", "", agents->front().problem,
                "kubectl get pods -o wide: a node has one agent, with --node-name");
  } else if (agents) {
    checks.skip(
        "agent.ready", "", "the agent's status page cannot be seen through the API server: " + agents->front().problem,
        "start tranche node with --listen :9400 and have the right to get pods/proxy, or run `tranche verify --local` "
        "on the node");
  }
  if (!agents && !none)
    return fail(agents.error().kind, fmt::format("{}. {}", agents.error().what, observe::kRightsToAskAgents),
                access.server.url());
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
  check_claim_specs(node, claim_specs(options.cdi_root), checks);

  const auto nvml = gpu::nvml::Driver::open(config::driver_settings(config.flags, places.driver_root));
  const auto hardware = nvml ? (*nvml)->scan() : std::unexpected(nvml.error());
  if (!hardware) {
    checks.skip("hardware.gpu", "", "the driver cannot be asked from here: " + to_string(hardware.error()),
                "name where the driver's files are with --driver-root-ctr-path");
  } else if (node.is_object()) {
    check_hardware(*hardware, node, checks);
  }
}

Status try_inside(const VerifyOptions& options, Findings& checks) {
  GrantHere grant{.endpoint = config::variable(options.environment, "CUDA_MPS_PIPE_DIRECTORY"), .env = {}};
  if (grant.endpoint.empty())
    return fail(Kind::kNotFound,
                "this container has no share of MPS (no CUDA_MPS_PIPE_DIRECTORY): ask for a resource that is shared by "
                "MPS or for a claim of a share, or run `tranche probe` for what the whole GPU is",
                "the environment");
  TRY(const auto loop, os::Loop::open());
  Probes probes(*loop, {options.environment.begin(), options.environment.end()}, ProbePlace::kContainer);
  TRY(const auto grants, grants_here(options, probes, grant));
  std::vector<std::string> gpus;
  for (const auto& expected : grants) gpus.push_back(expected.gpu);
  check_environment({options.environment.begin(), options.environment.end()}, gpus, checks);
  for (const auto& expected : grants) {
    GrantHere here = grant;
    if (expected.gpu.starts_with("GPU-")) here.env["CUDA_VISIBLE_DEVICES"] = expected.gpu;
    try_grant(probes, options, {}, {expected, here, {}, options.observed}, checks);
  }
  return {};
}

}  // namespace tranche::doctor
