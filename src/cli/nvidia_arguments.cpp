#include "cli/stand_in.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "base/version.h"

namespace tranche::cli {

bool is_folder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

void add_switch(CLI::App& app, const std::string& flags, Switch& value, const std::string& help) {
  app.add_flag(flags + "{true}", value.text, fmt::format("{} [${}]", help, value.variable));
}

bool read_switch(Switch& value, const Process& process) {
  const auto found = process.environment.find(value.variable);
  if (value.text.empty() && found == process.environment.end()) return true;
  const std::string& text = value.text.empty() ? found->second : value.text;
  const auto on = text.empty() ? std::optional(false) : config::parse_switch(text);
  value.on = on.value_or(value.on);
  return on.has_value();
}

std::optional<int> read_as_nvidias(CLI::App& app, const std::vector<std::string>& arguments,
                                   std::vector<std::string>& rest) {
  app.set_version_flag("--version,-v", fmt::format("{} (tranche {})", app.get_name(), kVersion));
  auto go = read_go_arguments(arguments, [&app](std::string_view name) {
    const std::string flag = (name.size() == 1 ? "-" : "--") + std::string(name);
    const CLI::Option* option = app.get_option_no_throw(flag);
    return option != nullptr && option->get_items_expected_min() > 0;
  });
  rest = std::move(go.rest);
  if (!rest.empty() && (rest.front() == "help" || rest.front() == "h")) go.words = {"--help"};
  try {
    app.parse(std::vector<std::string>(go.words.rbegin(), go.words.rend()));  // CLI11 expects the last word first
  } catch (const CLI::ParseError& error) {
    return leave(app, error, 1);
  }
  return std::nullopt;
}

void warn_of_ignored(const CLI::App& app, const std::vector<std::string>& rest) {
  if (rest.empty()) return;
  fmt::print(stderr,
             "{}: warning: ignored, as NVIDIA's program ignores everything from the first word that is no flag: {}; a "
             "switch has its value after \"=\"\n",
             app.get_name(), join(rest, " ", in_quotes));
}

std::optional<int> read_as_nvidias(CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> rest;
  const auto status = read_as_nvidias(app, arguments, rest);
  if (!status) warn_of_ignored(app, rest);
  return status;
}

}  // namespace tranche::cli
