#pragma once
// Options of commands that query the node agents of a whole cluster, from anywhere with a kubeconfig.
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/commands.h"
#include "kube/client/find_access.h"
#include "observe/cluster/agent_statuses.h"

namespace tranche::cli {

struct ClusterOptions {
  bool cluster = false;
  observe::AgentsAsked asked;
  std::optional<kube::PersonsAccess> access;  // of the first ask_agents()
};

// --kubeconfig, --context, --namespace, --selector and --status-port; `where` is the prefix of their help: "",
// "with --cluster: ".
void add_agents_options(CLI::App& command, observe::AgentsAsked& asked, const std::string& where);
// --cluster, and the options above.
void add_cluster_options(CLI::App& command, ClusterOptions& options, const Process& process);

// The status document of the node agent of this machine. The error has the remedy.
Result<std::string> ask_node(const std::string& socket, Duration deadline = std::chrono::seconds(5));

Result<std::vector<observe::AgentStatus>> ask_agents(ClusterOptions& options, const Process& process);

}  // namespace tranche::cli
