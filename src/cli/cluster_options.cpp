#include "cli/cluster_options.h"

#include <CLI/CLI.hpp>

#include "os/socket/status_socket.h"

namespace tranche::cli {

void add_agents_options(CLI::App& command, observe::AgentsAsked& asked, const std::string& where) {
  command
      .add_option("--kubeconfig", asked.kubeconfig.files,
                  where +
                      "how to reach the API server; default: $KUBECONFIG (one file or several), ~/.kube/config, or "
                      "the service account of the pod")
      ->envname("KUBECONFIG");
  command.add_option("--context", asked.kubeconfig.context,
                     where + "context of the kubeconfig; default: the current one");
  command.add_option("--namespace", asked.pod_namespace, where + "namespace of the agents; other pods are not asked")
      ->capture_default_str();
  command.add_option("--selector", asked.selector, where + "labels of the agents' pods")->capture_default_str();
  command
      .add_option("--status-port", asked.status_port,
                  where + "port of the agents' status page, where a pod names no port \"metrics\"")
      ->capture_default_str();
}

void add_cluster_options(CLI::App& command, ClusterOptions& options, const Process& process) {
  options.cluster = process.as_plugin;
  command.add_flag("--cluster", options.cluster,
                   "ask the agents of all nodes, through the API server; they report less than on their node");
  add_agents_options(command, options.asked, "with --cluster: ");
}

Result<std::string> ask_node(const std::string& socket, Duration deadline) {
  auto answer = os::ask(socket, "status", deadline);
  if (answer) return answer;
  return fail(
      Kind::kUnavailable,
      "no answer from the node agent: " + to_string(answer.error()) +
          "\n  Run it on a node, in the agent's pod; the socket of `tranche node` is <run-dir>/node.sock: name it "
          "with --socket. From another machine, ask through the API server: `tranche status --node NAME`, "
          "`tranche top --cluster`, `tranche why --cluster NAME`.");
}

Result<std::vector<observe::AgentStatus>> ask_agents(ClusterOptions& options, const Process& process) {
  if (!options.access) options.access.emplace(options.asked.kubeconfig, process.environment);
  return observe::agent_statuses(*options.access, options.asked);
}

}  // namespace tranche::cli
