// The node from outside (what the API server has, and what the agent's status page says through it), and from within
// (the status sockets of both programs, and the driver).
#include "doctor/verify/live/verify_program.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "config/live/config_source.h"
#include "config/live/driver_settings.h"
#include "doctor/finding.h"
#include "doctor/verify/check_groups.h"
#include "doctor/verify/live/trials.h"
#include "dra/claim_spec.h"
#include "gpu/driver/driver.h"
#include "kube/client/ask_once.h"
#include "kube/node_condition.h"
#include "kube/object.h"
#include "kube/url.h"
#include "os/files/files.h"
#include "os/socket/status_socket.h"

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

constexpr int kUsage = 2;

VerifyPlaces places_of(const VerifyOptions& options, const config::Flags& flags) {
  VerifyPlaces places;
  places.mps_root = flags.mps_root.empty() ? std::string(config::kDefaultMpsRoot) : flags.mps_root;
  places.mps_root_here = options.mps_root_here.empty() ? places.mps_root : options.mps_root_here;
  places.driver_root = flags.plugin.container_driver_root;
  return places;
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

// An Error: there is nothing to check, for example no API server.
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
    const auto config = config::load_config(options.flags, options.environment, options.unknown_keys);
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
