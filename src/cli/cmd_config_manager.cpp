#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/text.h"
#include "cli/setting_options.h"
#include "cli/stand_in.h"
#include "programs/config_manager/config_manager.h"

namespace tranche::cli {
namespace {

constexpr std::int64_t kLastSignal = 64;

// Raw values: they are checked once all are known.
struct Given {
  programs::ConfigManagerOptions options;
  Switch oneshot{"ONESHOT"};
  Switch send_signal{"SEND_SIGNAL", true};
  std::string signal;
  std::vector<std::string> fallbacks;
  LogOptions log;
};

void add_options(CLI::App& app, Given& given) {
  auto& o = given.options;
  add_switch(app, "--oneshot", given.oneshot, "choose once and end");
  add_variable_option(app, "--kubeconfig", o.kubeconfig, kKubeconfigHelp);
  add_variable_option(app, "--node-name", o.node_name, "what the cluster calls this node; required");
  add_variable_option(app, "--node-label", o.node_label, "the label of the node that names its configuration");
  add_variable_option(app, "--config-file-srcdir", o.source_dir, "folder of the configurations, one a file; required");
  add_variable_option(app, "--config-file-dst", o.target, "the link to the one in effect; required");
  add_variable_option(app, "--default-config", o.rules.default_name, "the one for nodes without the label");
  app.add_option("--fallback-strategies", given.fallbacks,
                 "where there is neither label nor default: named, single, empty, in the order given")
      ->envname("FALLBACK_STRATEGIES")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_switch(app, "--send-signal", given.send_signal, "signal the reader of a change; true by default");
  add_variable_option(app, "--signal", given.signal, "the signal's number; 1 by default");
  add_variable_option(app, "--process-to-signal", o.process, "the reader's name or path");
  add_log_options(app, given.log);
}

// Returns the error, or "".
std::string judge(Given& given, const Process& process) {
  auto& o = given.options;
  if (!read_switch(given.oneshot, process)) return "--oneshot ($ONESHOT) is neither true nor false";
  if (!read_switch(given.send_signal, process)) return "--send-signal ($SEND_SIGNAL) is neither true nor false";
  o.oneshot = given.oneshot.on;
  o.send_signal = given.send_signal.on;
  if (o.node_name.empty()) return "the name of this node is not given: --node-name or $NODE_NAME";
  if (o.source_dir.empty())
    return "the folder of configurations is not given: --config-file-srcdir or $CONFIG_FILE_SRCDIR";
  if (o.target.empty()) return "the link to write is not given: --config-file-dst or $CONFIG_FILE_DST";
  if (o.node_label.empty()) return "--node-label is empty: write the key of a label, or leave it out";
  while (o.source_dir.size() > 1 && o.source_dir.ends_with('/')) o.source_dir.pop_back();
  for (const auto& word : given.fallbacks)
    if (!trimmed(word).empty()) o.rules.fallbacks.emplace_back(trimmed(word));
  if (!o.send_signal) return "";
  if (!given.signal.empty()) {
    const auto number = parse_signed(given.signal);
    if (!number || *number < 1 || *number > kLastSignal)
      return "--signal ($SIGNAL) is " + in_quotes(given.signal) + "; write a number from 1 to 64, such as 1";
    o.signal = static_cast<int>(*number);
  }
  if (o.process.empty()) return "--process-to-signal is empty: name the reader, or write --send-signal=false";
  return "";
}

}  // namespace

int config_manager(const std::vector<std::string>& arguments, Process& process) {
  CLI::App app("Tranche as NVIDIA's config manager: the same flags, variables and files", kConfigManager);
  Given given;
  add_options(app, given);
  if (const auto status = read_as_nvidias(app, arguments)) return *status;
  if (const auto wrong = judge(given, process); !wrong.empty()) {
    fmt::print(stderr, "{}: {}\n", kConfigManager, wrong);
    return 1;
  }
  return programs::run_config_manager(started(given, process));
}

void add_config_manager(CLI::App& app, Process&) {
  app.add_subcommand(
      kConfigManager,
      "keeps a link to the node's configuration among several and signals its reader, as NVIDIA's config "
      "manager does; the same as calling this program config-manager");
}

}  // namespace tranche::cli
