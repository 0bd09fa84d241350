#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "host/clock/clock.h"
#include "host/status/status_socket.h"
#include "why/why.h"

namespace tranche::cli {
namespace {

struct WhyOptions {
  std::string name;
  std::string socket = "/run/tranche/node.sock";
  bool json = false;
};

constexpr auto kDeadline = std::chrono::seconds(5);

int why_command(const WhyOptions& options, const Process& process) {
  const auto answer = host::ask(options.socket, "status", kDeadline);
  if (!answer) {
    fmt::print(stderr,
               "tranche why: no answer from the node agent: {}\n  The socket of `tranche node` is <run-dir>/node.sock; "
               "name it with --socket.\n",
               to_string(answer.error()));
    return 1;
  }
  const auto found = why::explain(*answer, options.name, host::wall_now());
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
  command->add_flag("--json", options->json, "the same as JSON");
  command->callback([options, &process] { process.exit_code = why_command(*options, process); });
}

}  // namespace tranche::cli
