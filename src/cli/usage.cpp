// What the program says of its own command line: help, errors, completion, version.
#include "cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/problem.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "base/version.h"
#include "os/files/files.h"
#include "os/terminal/terminal.h"

namespace tranche::cli {
namespace {

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  const std::string meant = did_you_mean(word, {known.begin(), known.end()});
  return meant.empty() ? "" : "; did you mean " + meant + "?";
}

std::string unknown_flag(const CLI::App& command, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    for (const auto& name : option->get_snames()) known.push_back("-" + name);
  }
  return "has no flag " + flag + nearest(flag, known);
}

// CLI11's report of an invalid value, in this program's wording.
std::string bad_value(const CLI::ParseError& error) {
  const std::string what = error.what();
  constexpr std::string_view kConvert = "Could not convert: ";
  if (what.starts_with(kConvert)) {
    const std::string rest = what.substr(kConvert.size());
    const auto equals = rest.find(" = ");
    if (equals != std::string::npos)
      return rest.substr(0, equals) + ": " + in_quotes(rest.substr(equals + 3)) + " is not a value that it accepts";
  }
  if (what.find("required") != std::string::npos && what.ends_with(" missing"))
    return what.substr(0, what.find(':')) + " needs a value";
  return what;
}

std::string unknown_word(const CLI::App& command, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* each : command.get_subcommands({})) known.push_back(each->get_name());
  const bool is_file = word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
  if (known.empty() && is_file && command.get_option_no_throw("--config") != nullptr)
    return "accepts no argument " + in_quotes(word) + "; did you mean --config " + word + "?";
  if (known.empty()) return "accepts no argument " + in_quotes(word) + "; a switch has its value after \"=\"";
  return "has no command " + in_quotes(word) + nearest(word, known);
}

// "UINT:INT in [1 - 16]" → "N" and "1 to 16"; "TEXT:{a,b}" → "TEXT" and "a, b".
std::pair<std::string, std::string> value_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto colon = type.find(':');
  const std::string base = type.substr(0, colon), check = colon == std::string::npos ? "" : type.substr(colon + 1);
  const std::string name = check == "FILE" ? check : base == "UINT" || base == "INT" || base == "FLOAT" ? "N" : base;
  const auto first = check.find_first_of("[{");
  if (first == std::string::npos) return {name, ""};
  std::string allowed = check.substr(first + 1, check.size() - first - 2);
  const bool range = check[first] == '[';
  const std::string from = range ? " - " : ",", to = range ? " to " : ", ";
  for (auto at = allowed.find(from); at != std::string::npos; at = allowed.find(from, at + to.size()))
    allowed.replace(at, from.size(), to);
  return {name, allowed};
}

// CLI11's help in two columns that fit the terminal. What a value may be follows the description.
class HelpText : public CLI::Formatter {
 public:
  explicit HelpText(int width) : width_(width) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return fitted(Formatter::make_help(app, std::move(name), mode), width_);
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = make_option_name(option, is_positional), text = option->get_description();
    std::vector<std::string> notes;
    if (option->get_type_size() != 0) {
      const auto [type, allowed] = value_of(*option);
      if (!is_positional) name += " " + type;
      if (option->get_expected_max() == CLI::detail::expected_max_vector_size) name += " ...";
      if (!allowed.empty()) notes.push_back(allowed);
      if (const auto value = option->get_default_str(); !value.empty()) notes.push_back("default " + value);
      if (option->get_required()) notes.emplace_back("required");
    }
    for (const CLI::Option* other : option->get_needs()) notes.push_back("with " + other->get_name());
    for (const CLI::Option* other : option->get_excludes()) notes.push_back("not with " + other->get_name());
    if (!notes.empty()) text += " (" + join(notes, "; ") + ")";
    if (!option->get_envname().empty()) text += " [$" + option->get_envname() + "]";
    return row(name, text);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_display_name(true), command->get_description());
  }

 private:
  std::string row(std::string name, std::string_view text) const {
    constexpr std::size_t kNames = 25;
    TerminalText out(false, width_);
    if (name.size() > kNames) out.line(std::exchange(name, ""));
    name.resize(kNames, ' ');
    out.sentence(name, text, "");
    return out.take();
  }

  int width_;
};

}  // namespace

int leave(CLI::App& app, const CLI::ParseError& error, int usage_status) {
  CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  if (error.get_exit_code() == 0) {
    command->formatter(std::make_shared<HelpText>(os::terminal_size().value_or(os::TerminalSize{}).columns));
    return app.exit(error);
  }
  std::vector<std::string> unread = command->remaining();
  if (unread.empty() && command != &app) unread = app.remaining();
  std::string what = bad_value(error);
  if (!unread.empty())
    what = unread.front().starts_with("-") && unread.front().size() > 1 ? unknown_flag(*command, unread.front())
                                                                        : unknown_word(*command, unread.front());
  fmt::print(stderr, "{}: {}\n  `{} --help` lists what there is\n", name, what, name);
  return usage_status;
}

Result<std::string> read_given(const std::string& path, std::size_t limit) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  return os::read_file(path, limit);
}

int failed(std::string_view command, std::string_view what, int status) {
  fmt::print(stderr, "tranche {}: {}\n", command, what);
  return status;
}

bool print_problems(const std::vector<Problem>& problems) {
  for (const auto& problem : problems) fmt::print(stderr, "{}\n", to_string(problem));
  return has_error(problems);
}

namespace {

// Completion for shells, from CLI11's model of the command line: commands and flags. Files are completed by the shell.

// Commands below it, its flags and theirs.
std::vector<std::string> completed(CLI::App& command) {
  std::vector<std::string> all;
  for (const CLI::Option* option : command.get_options())
    for (const auto& name : option->get_lnames()) all.push_back("--" + name);
  for (CLI::App* each : command.get_subcommands({})) {
    all.push_back(each->get_name());
    for (auto& name : completed(*each)) all.push_back(std::move(name));
  }
  return all;
}

std::string names_of(CLI::App& app) {
  return "help " + join(app.get_subcommands({}), " ", &CLI::App::get_name);
}

std::string for_bash(CLI::App& app) {
  std::string cases;
  for (CLI::App* command : app.get_subcommands({}))
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
  for (CLI::App* command : app.get_subcommands({}))
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

// Of the sources, from cmake/revision.cmake; "": not known.
extern const char *const kRevision, *const kRevisionDate;

std::string version_text() {
  std::string text = std::string("tranche ") + kVersion;
  if (*kRevision != '\0') text += std::string(" commit ") + kRevision;
  if (*kRevisionDate != '\0') text += std::string(" of ") + kRevisionDate;
  return text;
}

void add_version(CLI::App& app, Process&) {
  auto json = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("version", "version, commit and date of this program");
  command->add_flag("--json", *json, "the same as JSON");
  command->callback([json] {
    const nlohmann::ordered_json all{{"version", kVersion}, {"commit", kRevision}, {"date", kRevisionDate}};
    fmt::print("{}\n", *json ? json_text(all, 2) : version_text());
  });
}

}  // namespace tranche::cli
