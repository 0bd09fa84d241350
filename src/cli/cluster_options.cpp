#include "cli/cluster_options.h"

#include <CLI/CLI.hpp>

#include "kube/client/find_access.h"

namespace tranche::cli {

void add_agents_options(CLI::App& command, std::string& kubeconfig, agent::AgentsAsked& asked,
                        const std::string& where) {
  command
      .add_option("--kubeconfig", kubeconfig,
                  where + "how to reach the API server; default: $KUBECONFIG, or the service account of the pod")
      ->envname("KUBECONFIG");
  command.add_option("--namespace", asked.pod_namespace, where + "namespace of the agents; other pods are not asked")
      ->capture_default_str();
  command.add_option("--selector", asked.selector, where + "labels of the agents' pods")->capture_default_str();
  command
      .add_option("--status-port", asked.status_port,
                  where + "port of the agents' status page, where a pod names no port \"metrics\"")
      ->capture_default_str();
}

void add_cluster_options(CLI::App& command, ClusterOptions& options) {
  command.add_flag("--cluster", options.cluster,
                   "ask the agents of all nodes, through the API server; they say less than on their node");
  add_agents_options(command, options.kubeconfig, options.asked, "with --cluster: ");
}

Result<std::vector<agent::AgentStatus>> ask_agents(const ClusterOptions& options, const Process& process) {
  std::vector<Problem> problems;
  TRY(const auto access,
      host::find_access(options.kubeconfig, {process.environment.begin(), process.environment.end()}, problems));
  return agent::agent_statuses(access, options.asked);
}

}  // namespace tranche::cli
