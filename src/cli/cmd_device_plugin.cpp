#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text.h"
#include "base/version.h"
#include "cli/go_words.h"
#include "cli/mps_command.h"
#include "cli/node_command.h"
#include "cli/setting_options.h"
#include "cli/stand_in.h"
#include "cli/usage.h"

namespace tranche::cli {
namespace {

constexpr const char* kPlugin = "nvidia-device-plugin";
constexpr const char* kMpsDaemon = "mps-control-daemon";
constexpr const char* kMpsPlace = "/mps";  // where NVIDIA's chart mounts the host's MPS root in its containers

int as_nvidias(int status) {
  return status == 0 ? 0 : 1;
}

// Parses as NVIDIA's programs do. Nothing: go on with the program.
std::optional<int> read(CLI::App& app, const std::vector<std::string>& arguments, std::vector<std::string>& rest) {
  app.set_version_flag("--version,-v", fmt::format("{} (tranche {})", app.get_name(), kVersion));
  auto go = read_go_words(arguments, [&app](std::string_view name) {
    const std::string flag = (name.size() == 1 ? "-" : "--") + std::string(name);
    const CLI::Option* option = app.get_option_no_throw(flag);
    return option != nullptr && option->get_items_expected_min() > 0;
  });
  rest = std::move(go.rest);
  if (!rest.empty() && (rest.front() == "help" || rest.front() == "h")) go.words = {"--help"};
  try {
    app.parse(std::vector<std::string>(go.words.rbegin(), go.words.rend()));  // CLI11 wants the last word first
  } catch (const CLI::ParseError& error) {
    return leave(app, error, 1);
  }
  return std::nullopt;
}

void warn_of(const CLI::App& app, const std::vector<std::string>& rest) {
  if (rest.empty()) return;
  std::vector<std::string> words;
  for (const auto& word : rest) words.push_back(in_quotes(word));
  fmt::print(stderr,
             "{}: warning: ignored, as NVIDIA's program ignores everything from the first word that is no flag: {}; a "
             "switch has its value after \"=\"\n",
             app.get_name(), join(words, " "));
}

int device_plugin(const std::vector<std::string>& arguments, Process& process) {
  CLI::App app("Tranche as NVIDIA's device plugin: the same flags, variables, files and sockets", kPlugin);
  NodeCommand held;
  held.options.mps_root_here = kMpsPlace;
  add_node_options(app, held);
  std::vector<std::string> rest;
  if (const auto status = read(app, arguments, rest)) return *status;
  warn_of(app, rest);
  return as_nvidias(run(held, process));
}

int mps_control_daemon(const std::vector<std::string>& arguments, Process& process) {
  CLI::App app("Tranche as NVIDIA's MPS control daemon: the same flags, variables and files", kMpsDaemon);
  MpsCommand held;
  held.options.mps_root_here = kMpsPlace;
  add_settings(app, config::Program::kMpsControlDaemon, held.options.flags);
  add_own_mps_options(app, held);
  std::vector<std::string> rest;
  if (const auto status = read(app, arguments, rest)) return *status;
  if (!rest.empty() && rest.front() == "mount-shm") {
    fmt::print(stderr,
               "{}: mount-shm has nothing to do: containers reach MPS through a directory of their own, and no shared "
               "memory folder is mounted into them\n",
               kMpsDaemon);
    return 0;
  }
  warn_of(app, rest);
  return as_nvidias(run(held, process));
}

}  // namespace

std::optional<int> stand_in(const std::string& program, const std::vector<std::string>& arguments, Process& process) {
  const std::string name = program.substr(program.rfind('/') + 1);  // npos + 1 is 0
  if (name == kPlugin) return device_plugin(arguments, process);
  if (name == kMpsDaemon) return mps_control_daemon(arguments, process);
  return std::nullopt;
}

void add_device_plugin(CLI::App& app) {
  app.add_subcommand("device-plugin",
                     "the node agent as NVIDIA's device plugin; the same as calling this program nvidia-device-plugin");
}

}  // namespace tranche::cli
