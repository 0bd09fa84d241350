#pragma once
// Options of commands that query the node agents of a whole cluster, from anywhere with a kubeconfig.
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/commands.h"
#include "observe/cluster/agent_statuses.h"

namespace tranche::cli {

struct ClusterOptions {
  bool cluster = false;
  std::string kubeconfig;  // "" = the service account of this pod
  agent::AgentsAsked asked;
};

// --kubeconfig, --namespace, --selector and --status-port; `where` is the prefix of their help: "", "with --cluster: ".
void add_agents_options(CLI::App& command, std::string& kubeconfig, agent::AgentsAsked& asked,
                        const std::string& where);
// --cluster, and the options above.
void add_cluster_options(CLI::App& command, ClusterOptions& options);

Result<std::vector<agent::AgentStatus>> ask_agents(const ClusterOptions& options, const Process& process);

}  // namespace tranche::cli
