#include "cli/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/problem.h"
#include "base/text.h"

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

}  // namespace

int leave(CLI::App& app, const CLI::ParseError& error, int usage_status) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
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

void print_problems(const std::vector<Problem>& problems) {
  for (const auto& problem : problems) fmt::print(stderr, "{}\n", to_string(problem));
}

}  // namespace tranche::cli
