// Completion for shells, from CLI11's model of the command line: commands and flags. Files are completed by the shell.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "cli/commands.h"

namespace tranche::cli {
namespace {

std::vector<CLI::App*> below(CLI::App& command) {
  return command.get_subcommands([](CLI::App*) { return true; });
}

// Commands below it, its flags and theirs.
std::vector<std::string> completed(CLI::App& command) {
  std::vector<std::string> all;
  for (const CLI::Option* option : command.get_options())
    for (const auto& name : option->get_lnames()) all.push_back("--" + name);
  for (CLI::App* each : below(command)) {
    all.push_back(each->get_name());
    for (auto& name : completed(*each)) all.push_back(std::move(name));
  }
  return all;
}

std::string names_of(CLI::App& app) {
  std::vector<std::string> names{"help"};
  for (const CLI::App* command : below(app)) names.push_back(command->get_name());
  return join(names, " ");
}

std::string for_bash(CLI::App& app) {
  std::string cases;
  for (CLI::App* command : below(app))
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), join(completed(*command), " "));
  return fmt::format(
      "_tranche() {{\n  local words\n  case ${{COMP_WORDS[1]}} in\n{}  esac\n"
      "  [[ $COMP_CWORD == 1 || ${{COMP_WORDS[1]}} == help ]] && words=\"{}\"\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n}}\n"
      "complete -o default -F _tranche tranche\n",
      cases, names_of(app));
}

std::string for_fish(CLI::App& app) {
  std::string text = fmt::format("complete -c tranche -f -n __fish_use_subcommand -a \"{}\"\n", names_of(app));
  for (CLI::App* command : below(app))
    text += fmt::format("complete -c tranche -n \"__fish_seen_subcommand_from {}\" -a \"{}\"\n", command->get_name(),
                        join(completed(*command), " "));
  return text;
}

}  // namespace

void add_completion(CLI::App& app, Process&) {
  auto shell = std::make_shared<std::string>();
  auto* command = app.add_subcommand("completion", "completion of commands and flags, for a shell to read");
  command->add_option("shell", *shell, "for which shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Example, in ~/.bashrc:\n  source <(tranche completion bash)\nIn ~/.config/fish/config.fish:\n  tranche "
      "completion fish | source");
  command->callback([shell, &app] {
    const std::string zsh = "autoload -U +X bashcompinit && bashcompinit\n";
    fmt::print("{}", *shell == "fish" ? for_fish(app) : (*shell == "zsh" ? zsh : "") + for_bash(app));
  });
}

}  // namespace tranche::cli
