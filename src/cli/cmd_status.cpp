#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/terminal_text.h"
#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "observe/view/view.h"
#include "os/socket/status_socket.h"

namespace tranche::cli {
namespace {

struct StatusOptions {
  std::string socket = "/run/tranche/node.sock";
  bool json = false;
  bool alive = false;
  int deadline_seconds = 5;
  ClusterOptions cluster;
};

// For a liveness probe: the agent hangs only if its socket exists and it does not answer. Without a socket it has not
// started yet, or has exited, which is not the probe's concern.
int alive(const StatusOptions& options) {
  const auto answer = os::ask(options.socket, "alive", std::chrono::seconds(options.deadline_seconds));
  if (answer || answer.error().kind != Kind::kTimeout) return 0;
  fmt::print(stderr, "tranche status: the node agent hangs: {}\n", to_string(answer.error()));
  return 1;
}

Result<std::string> ask(StatusOptions& options, const Process& process) {
  const auto deadline = std::chrono::seconds(options.deadline_seconds);
  if (options.cluster.asked.node.empty()) return ask_node(options.socket, deadline);
  options.cluster.asked.deadline = deadline;
  TRY(auto statuses, ask_agents(options.cluster, process));
  if (!statuses.front().document.empty()) return std::move(statuses.front().document);
  return fail(Kind::kUnavailable, statuses.front().problem);
}

int status(StatusOptions& options, const Process& process) {
  if (options.alive) return alive(options);
  const auto answer = ask(options, process);
  if (!answer) {
    fmt::print(stderr, "tranche status: {}{}\n", to_string(answer.error()), observe::remedy_for(answer.error()));
    return 1;
  }
  if (options.json) {
    fmt::print("{}\n", *answer);
    return 0;
  }
  const auto view = view::make_view(*answer, "");
  if (!view) {
    fmt::print(stderr, "tranche status: {}\n", to_string(view.error()));
    return 1;
  }
  fmt::print("{}", fitted(view::render(*view, {.colour = process.terminal}), process.width));
  return 0;
}

}  // namespace

void add_status(CLI::App& app, Process& process) {
  auto options = std::make_shared<StatusOptions>();
  auto* command = app.add_subcommand("status", "what this node has and who holds it, from the running node agent");
  command->add_option("--socket", options->socket, "the node agent's status socket")->capture_default_str();
  command->add_option("--node", options->cluster.asked.node,
                      "the agent of this node, through the API server; it reports less than on the node");
  add_agents_options(*command, options->cluster.asked, "with --node: ");
  command->add_option("--deadline", options->deadline_seconds, "seconds to wait for the answer")->capture_default_str();
  command->add_flag("--json", options->json, "the whole status document (docs/reference/status.md)");
  command->add_flag(
      "--alive", options->alive,
      "print nothing; exit 1 only where the node agent is there and does not answer: for liveness probes");
  command->footer(
      "Examples:\n  tranche status               on the node, or in the agent's pod\n"
      "  tranche status --node n1     from outside");
  command->callback([options, &process] { process.exit_code = status(*options, process); });
}

}  // namespace tranche::cli
