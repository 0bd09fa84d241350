#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/terminal_text.h"
#include "cli/mig_command.h"
#include "cli/setting_options.h"
#include "gpu/models/models.h"
#include "mig/mig_plan.h"

namespace tranche::cli {
namespace {

constexpr const char* kName = "tranche mig";

struct MigGiven {
  std::string driver_root = "/";
  std::string run_dir = "/run/tranche";
  std::string inventory = "node";
  std::string file;
  std::string name;
  std::string label = "current";
  std::string format = "yaml";
  bool json = false;
  bool mode_only = false;
  bool valid_only = false;
  bool quiet = false;
};

// 0, or the exit status if the node cannot be read.
int read_node(const MigGiven& given, MigNode& node) {
  if (given.inventory != "node") {
    auto simulated = gpu::simulated_node(given.inventory);
    if (!simulated) {
      fmt::print(stderr, "{}: {}\n", kName, to_string(simulated.error()));
      return kMigUnusable;
    }
    node.gpus = *std::move(simulated);
    return 0;
  }
  gpu::NvmlSettings settings;
  settings.driver_root = given.driver_root;
  auto read = read_mig_node(settings, given.run_dir);
  if (!read) {
    fmt::print(stderr,
               "{}: cannot read this node's GPUs: {}\n  without a GPU, plan and profiles take a model: --inventory "
               "8xA100-SXM4-40GB\n",
               kName, to_string(read.error()));
    return read.error().kind == Kind::kDenied ? kMigDenied : kMigFailed;
  }
  node = *std::move(read);
  for (const auto& sentence : node.silent) fmt::print(stderr, "{}: {}\n", kName, sentence);
  if (node.gpus.empty() && !node.silent.empty()) return kMigFailed;
  return 0;
}

int profiles(const MigGiven& given, const MigNode& node, const Process& process) {
  fmt::print("{}", given.json ? mig::profiles_json(node.gpus)
                              : fitted(mig::profiles_text(node.gpus, process.terminal), process.width));
  return 0;
}

int plan(const MigGiven& given, const MigNode& node, const Process& process) {
  const auto configuration = choose_configuration(given.file, given.name, node.gpus);
  if (!configuration) return kMigUnusable;
  const auto made = mig::make_plan(*configuration, node.gpus, given.mode_only);
  print_problems(made.problems);
  fmt::print("{}", given.json ? mig::plan_json(made)
                              : mig::plan_text(made, process.terminal, process.width > 0 ? process.width : 100));
  if (!made.possible()) return kMigUnusable;
  if (made.blocked()) return kMigHeld;
  return made.needs_reset() ? kMigNeedsReset : 0;
}

int check(const MigGiven& given) {
  const bool needs_gpus = !given.valid_only || given.file.empty();
  MigNode node;
  if (needs_gpus)
    if (const int status = read_node(given, node)) return status;
  const auto configuration = choose_configuration(given.file, given.name, node.gpus);
  if (!configuration) return kMigUnusable;
  if (given.valid_only) return 0;
  const auto differences = mig::differences(*configuration, node.gpus, given.mode_only);
  for (const auto& difference : differences) fmt::print("{}\n", difference);
  return differences.empty() ? 0 : kMigDiffers;
}

int apply_now(const MigGiven& given, MigNode& node) {
  const auto configuration = choose_configuration(given.file, given.name, node.gpus);
  if (!configuration) return kMigUnusable;
  const auto made = mig::make_plan(*configuration, node.gpus, given.mode_only);
  print_problems(made.problems);
  const auto say = [&given](const std::string& sentence) {
    if (!given.quiet) fmt::print("{}\n", sentence);
  };
  const int status = carry_out(node, made, kName, false, say);
  if (status == 0) say(fmt::format("the node is as configured ({})", configuration->name));
  return status;
}

void add_node_options(CLI::App& command, MigGiven& given, bool simulated) {
  add_own_option(command, "--run-dir", given.run_dir,
                 "the node agent's directory: it knows which pods hold which devices");
  command.add_option("--driver-root", given.driver_root, "where the driver's files are")
      ->envname("DRIVER_ROOT_CTR_PATH")
      ->capture_default_str();
  if (!simulated) return;
  command
      .add_option("--inventory", given.inventory,
                  "\"node\" for the GPUs of this machine, or a number of equal GPUs such as 8xA100-SXM4-40GB")
      ->capture_default_str();
}

void add_choice(CLI::App& command, MigGiven& given) {
  command.add_option("configuration", given.name, "the configuration's name; may be left out where there is one alone");
  command
      .add_option("--config-file,-f", given.file,
                  "file in mig-parted's format, \"-\" for the standard input; without it the default configurations of "
                  "these GPUs: all-disabled, all-balanced, all-1g.10gb …")
      ->type_name("FILE");
  command.add_option("--selected-config,-c", given.name, "the same as the name alone")->type_name("NAME");
}

void add_format(CLI::App& command, MigGiven& given) {
  command.add_option("--output-format,-o", given.format, "yaml or json")
      ->check(CLI::IsMember({"yaml", "json"}))
      ->capture_default_str();
}

}  // namespace

void add_mig(CLI::App& app, Process& process) {
  auto given = std::make_shared<MigGiven>();
  auto* mig = app.add_subcommand("mig", "plan and apply MIG configurations");
  mig->require_subcommand(1);
  const auto on_node = [given, &process](CLI::App& command, auto run) {
    command.callback([given, &process, run] {
      MigNode node;
      const int status = read_node(*given, node);
      process.exit_code = status != 0 ? status : run(*given, node);
    });
  };

  auto* list = mig->add_subcommand("profiles", "instances that the GPUs can have, their placements, and what is free");
  add_node_options(*list, *given, true);
  list->add_flag("--json", given->json, "as JSON");
  on_node(*list, [&process](const MigGiven& one, MigNode& node) { return profiles(one, node, process); });

  auto* show = mig->add_subcommand(
      "plan", "what a configuration would change: instances that stay, go and are made, who holds them, resets");
  add_choice(*show, *given);
  add_node_options(*show, *given, true);
  show->add_flag("--mode-change-only,-m", given->mode_only, "the MIG mode alone");
  show->add_flag("--json", given->json, "as JSON");
  on_node(*show, [&process](const MigGiven& one, MigNode& node) { return plan(one, node, process); });

  auto* verify = mig->add_subcommand("assert", "whether the node is as a configuration says; lists the differences");
  add_choice(*verify, *given);
  add_node_options(*verify, *given, false);
  verify->add_flag("--mode-only,-m", given->mode_only, "compare the MIG mode alone");
  verify->add_flag("--valid-config,-a", given->valid_only, "only that the configuration exists and can be read");
  verify->callback([given, &process] { process.exit_code = check(*given); });

  auto* write = mig->add_subcommand("export", "what the GPUs have now, as a configuration");
  add_node_options(*write, *given, false);
  write->add_option("--config-label,-l", given->label, "the configuration's name")->capture_default_str();
  add_format(*write, *given);
  on_node(*write, [](const MigGiven& one, MigNode& node) {
    return write_configurations(mig::exported(node.gpus, one.label), one.format, "") ? 0 : kMigFailed;
  });

  auto* make = mig->add_subcommand("generate-config", "the default configurations of these GPUs, with NVIDIA's names");
  add_node_options(*make, *given, true);
  add_format(*make, *given);
  on_node(*make, [](const MigGiven& one, MigNode& node) {
    return write_configurations(mig::default_configurations(node.gpus), one.format, "") ? 0 : kMigFailed;
  });

  auto* apply =
      mig->add_subcommand("apply", "partition the GPUs as a configuration says, changing only what must change");
  add_choice(*apply, *given);
  add_node_options(*apply, *given, false);
  apply->add_flag("--mode-change-only,-m", given->mode_only, "the MIG mode alone");
  apply->add_flag("--quiet,-q", given->quiet, "no line for each step");
  on_node(*apply, apply_now);

  mig->footer(
      "Examples:\n"
      "  tranche mig profiles                           instances of these GPUs\n"
      "  tranche mig plan -f mig.yaml all-1g.10gb       what apply would do\n"
      "Exit status: 0 as configured, or the plan can be carried out now; 1 the driver or a change failed; 2 the "
      "command "
      "line or configuration cannot be used; 3 (assert) the node differs; 4 a process or pod holds what must go; 5 the "
      "mode takes effect at a GPU reset; 6 the driver refuses this user.");
}

}  // namespace tranche::cli
