#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent/config/config_source.h"
#include "agent/config/driver_settings.h"
#include "cli/commands.h"
#include "cli/setting_options.h"
#include "config/report.h"
#include "host/files/files.h"
#include "host/nvml/nvml.h"
#include "inventory/json.h"
#include "label/label.h"
#include "plan/json.h"
#include "plan/make_plan.h"
#include "plan/table.h"

namespace tranche::cli {
namespace {

struct Options {
  config::GivenFlags flags;
  std::string inventory = "node";
  bool json = false;
  bool inventory_only = false;
  bool explain = false;
  bool strict = false;
};

Result<inventory::Inventory> load_inventory(const Options& options, const config::Config& config) {
  if (options.inventory == "node") {
    auto nvml = host::Nvml::open(agent::driver_settings(config.flags, ""));
    if (!nvml) return std::unexpected(within(std::move(nvml).error(), "cannot read this node's GPUs"));
    return (*nvml)->scan();
  }
  TRY(const auto text, host::read_file(options.inventory));
  return inventory::parse_inventory(text, options.inventory);
}

void print_problems(const std::vector<Problem>& problems) {
  for (const auto& problem : problems) fmt::print(stderr, "{}\n", to_string(problem));
}

int plan(const Options& options, const Process& process) {
  const config::Environment environment(process.environment.begin(), process.environment.end());
  const auto resolved = agent::load_config(options.flags, environment, unknown_keys(options.strict));
  print_problems(resolved.problems);
  if (has_error(resolved.problems)) return 2;

  const auto inventory = load_inventory(options, resolved.config);
  if (!inventory) {
    fmt::print(stderr,
               "tranche plan: {}\n  without a GPU, name a recording: tranche plan --inventory FILE (one is made by "
               "`tranche plan --inventory-only --json` on a node)\n",
               to_string(inventory.error()));
    return 1;
  }
  if (options.inventory_only) {
    fmt::print("{}\n", inventory::to_json(*inventory).dump(2));
    return 0;
  }
  const auto made = plan::make_plan(resolved.config, *inventory);
  if (!made) {
    print_problems(made.error());
    return 2;
  }
  const auto labels = label::labels_for(resolved.config, *inventory, *made, {});
  if (options.json) {
    auto document = plan::to_json(*made);
    document["labels"] = labels;
    if (options.explain)
      document["configuration"] = nlohmann::ordered_json::parse(
          config::report_json(resolved.path, resolved.problems, &resolved.explained), nullptr, false);
    fmt::print("{}\n", document.dump(2));
  } else {
    if (options.explain) fmt::print("{}\n", config::explained_text(resolved.explained));
    fmt::print("{}", plan::render_table(*made, *inventory, labels, {.colour = process.terminal}));
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Process& process) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand(
      "plan",
      "what a node would advertise, limit and label under a configuration, and what it would leave out and why");
  add_settings(*command, config::Program::kDevicePlugin, options->flags);
  command
      ->add_option("--inventory", options->inventory,
                   "\"node\" for the GPUs of this machine, or a file with a recorded inventory")
      ->capture_default_str();
  add_config_alias(*command, options->flags);
  add_strict(*command, options->strict);
  command->add_flag("--explain", options->explain, "first the value of every setting and where it comes from");
  command->add_flag("--inventory-only", options->inventory_only,
                    "print the inventory instead of a plan: a recording for --inventory");
  command->add_flag("--json", options->json, "the plan as JSON");
  command->callback([options, &process] { process.exit_code = plan(*options, process); });
}

}  // namespace tranche::cli
