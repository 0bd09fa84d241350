#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "observe/why/why.h"
#include "os/clock/clock.h"

namespace tranche::cli {
namespace {

struct WhyOptions {
  std::string name;
  std::string socket = "/run/tranche/node.sock";
  bool json = false;
  ClusterOptions cluster;
};

// The explanation of that name from each agent of the cluster. It has fewer facts than on the node: the agent's page
// does not name processes.
Result<std::vector<why::Explanation>> ask_cluster(WhyOptions& options, const Process& process) {
  TRY(const auto statuses, ask_agents(options.cluster, process));
  std::vector<why::Explanation> all;
  for (const auto& status : statuses) {
    if (status.document.empty())
      fmt::print(stderr, "tranche why: node {} is not known: {}\n", visible_text(status.node),
                 visible_text(status.problem));
    auto found = why::explain(status.document, options.name, os::wall_now());
    if (!found) continue;
    for (auto& each : *found) {
      each.node = status.node;
      all.push_back(std::move(each));
    }
  }
  if (all.empty())
    return fail(
        Kind::kNotFound,
        fmt::format("none of {} node agents reports a pod, GPU or slot {}. A pod without a share is not known to "
                    "any: `kubectl describe pod` shows why it is Pending or was refused",
                    statuses.size(), in_quotes(options.name)));
  return all;
}

Result<std::vector<why::Explanation>> ask(WhyOptions& options, const Process& process) {
  if (options.cluster.cluster) return ask_cluster(options, process);
  TRY(const auto answer, ask_node(options.socket));
  return why::explain(answer, options.name, os::wall_now());
}

int why_command(WhyOptions& options, const Process& process) {
  const auto found = ask(options, process);
  if (!found) {
    fmt::print(stderr, "tranche why: {}\n", to_string(found.error()));
    return 1;
  }
  fmt::print("{}", options.json ? why::to_json(*found) + "\n" : why::render(*found, process.terminal, process.width));
  return 0;
}

}  // namespace

void add_why(CLI::App& app, Process& process) {
  auto options = std::make_shared<WhyOptions>();
  auto* command = app.add_subcommand(
      "why", "why a pod, a GPU or a slot is in its state, and what to do, from the running node agent");
  command
      ->add_option(
          "name", options->name,
          "pod (NAME, NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER), GPU (index, UUID or its beginning), or slot id")
      ->required();
  command->add_option("--socket", options->socket, "the node agent's status socket")->capture_default_str();
  add_cluster_options(*command, options->cluster, process);
  command->add_flag("--json", options->json, "the same as JSON");
  command->footer(
      "Examples:\n  tranche why team-a/train     a pod\n  tranche why 2                GPU 2 of this node\n"
      "  tranche why --cluster train  wherever it is");
  command->callback([options, &process] { process.exit_code = why_command(*options, process); });
}

}  // namespace tranche::cli
