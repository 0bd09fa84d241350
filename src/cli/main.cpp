// The one program: `tranche <subcommand>`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string_view>

#include "base/version.h"
#include "cli/commands.h"

extern char** environ;

namespace {

std::map<std::string, std::string> environment_of_process() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

constexpr const char* kDescription =
    "Tranche shares NVIDIA GPUs between Kubernetes pods: a share of a GPU that holds.\n"
    "Try it without a GPU:  tranche demo";

}  // namespace

int main(int argc, char** argv) {
  tranche::cli::Process process;
  process.environment = environment_of_process();
  process.terminal = ::isatty(STDOUT_FILENO) != 0 && !process.environment.contains("NO_COLOR");

  CLI::App app(kDescription, "tranche");
  app.require_subcommand(1);
  app.set_version_flag("--version,-v", std::string("tranche ") + tranche::kVersion);
  app.failure_message(CLI::FailureMessage::simple);
  tranche::cli::add_node(app, process);
  tranche::cli::add_mps(app, process);
  tranche::cli::add_plan(app, process);
  tranche::cli::add_probe(app, process);
  tranche::cli::add_status(app, process);
  tranche::cli::add_check(app, process);
  tranche::cli::add_demo(app, process);
  tranche::cli::add_version(app, process);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // help and version are "errors" of status 0
  }
  return process.exit_code;
}
