#include "cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/problem.h"
#include "base/terminal_text.h"
#include "base/text.h"
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
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(each->get_name());
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

bool print_problems(const std::vector<Problem>& problems) {
  for (const auto& problem : problems) fmt::print(stderr, "{}\n", to_string(problem));
  return has_error(problems);
}

}  // namespace tranche::cli
