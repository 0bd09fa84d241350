// The only program: `tranche <subcommand>`, or one of NVIDIA's programs if called by its name.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "cli/commands.h"
#include "cli/mig_command.h"
#include "cli/setting_options.h"
#include "os/terminal/terminal.h"

extern char** environ;

namespace {

tranche::config::Environment environment_of_process() {
  tranche::config::Environment variables;
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

// "--name=" has an empty value, as for getopt and Go; CLI11 would take the next word instead, even another flag.
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (const auto& word : arguments) {
    const bool empty = word.starts_with("--") && word.find('=') == word.size() - 1;
    words.push_back(empty ? word.substr(0, word.size() - 1) : word);
    if (empty) words.emplace_back();
  }
  return words;
}

// CLI11 reads an empty text as the number 0.
void refuse_empty_numbers(CLI::App& app) {
  for (auto* option : app.get_options())
    if (const auto type = option->get_type_name();
        type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT"))
      option->check([](const std::string& text) { return std::string(text.empty() ? "\"\" is not a number" : ""); });
  for (auto* command : app.get_subcommands({})) refuse_empty_numbers(*command);
}

// Not 0: the command line is wrong.
int read_command_line(const std::vector<std::string>& arguments, tranche::cli::Process& process) {
  using namespace tranche::cli;
  CLI::App app(kDescription, process.as_plugin ? "kubectl tranche" : "tranche");
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();  // for help; the commands' options inherit it
  app.set_version_flag("--version,-v", version_text(), "print the version, and exit");
  using Add = void(CLI::App&, Process&);
  const auto add = [&](const char* group, std::initializer_list<Add*> commands) {
    for (const auto command : commands) {
      command(app, process);
      app.get_subcommands({}).back()->group(group);
    }
  };
  add("Commands", {add_check, add_plan, add_status, add_top, add_why, add_web, add_verify, add_mig, add_labels,
                   add_probe, add_reset, add_demo, add_version, add_completion});
  add("Programs of a node, started by the chart", {add_node, add_mps});
  constexpr const char* kByName = "NVIDIA's programs by name";  // for the help: stand_in() runs them
  app.add_subcommand("device-plugin",
                     "the node agent as NVIDIA's device plugin; the same as calling this program nvidia-device-plugin")
      ->group(kByName);
  app.add_subcommand(
         kConfigManager,
         "keeps a link to the node's configuration among several and signals its reader, as NVIDIA's config "
         "manager does; the same as calling this program config-manager")
      ->group(kByName);
  refuse_empty_numbers(app);
  try {
    auto words = with_empty_values(arguments);
    show_settings(app, words);
    std::ranges::reverse(words);  // the order that CLI11 expects
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return leave(app, error, 2);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tranche::cli::Process process;
  process.environment = environment_of_process();
  process.terminal = ::isatty(STDOUT_FILENO) != 0 && !process.environment.contains("NO_COLOR");
  if (const auto size = tranche::os::terminal_size()) process.width = size->columns;

  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const std::string_view called = argc > 0 ? argv[0] : "";
  process.as_plugin = called.substr(called.rfind('/') + 1) == "kubectl-tranche";
  if (const auto status = tranche::cli::stand_in(std::string(called), arguments, process)) return *status;
  for (const char* name : {"device-plugin", tranche::cli::kConfigManager})
    if (!arguments.empty() && arguments.front() == name)
      return tranche::cli::stand_in(name, {arguments.begin() + 1, arguments.end()}, process).value_or(1);

  // `tranche` and `tranche help COMMAND`, as kubectl and helm have them.
  if (arguments.empty() || arguments.front() == "help") {
    if (!arguments.empty()) arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  if (const int status = read_command_line(arguments, process); status != 0) return status;
  return process.run ? process.run() : process.exit_code;
}
