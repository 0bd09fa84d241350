// `nvidia-mig-parted` by name: its commands, flags, variables and exit statuses (only 0 and 1).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/mig_command.h"
#include "cli/setting_options.h"
#include "mig/driver/apply.h"
#include "mig/driver/checkpoint.h"
#include "os/files/files.h"
#include "os/process/process.h"

namespace tranche::cli {
namespace {

constexpr const char* kDriverRoot = "DRIVER_ROOT_CTR_PATH";
constexpr const char* kRunDir = "TRANCHE_RUN_DIR";
constexpr const char* kSkipReset = "MIG_PARTED_SKIP_RESET";
constexpr const char* kModeOnly = "MIG_PARTED_MODE_CHANGE_ONLY";

struct PartedOptions {
  std::string config_file;
  std::string selected;
  std::string hooks_file;
  bool skip_reset = false;
  bool mode_only = false;
  bool valid_only = false;
  std::string format = "yaml";
  std::string label = "current";
  std::string output_file;
  std::string checkpoint_file;
};
using PlanOf = std::function<mig::Plan(const MigNode&)>;

int failed(const std::string& what) {
  fmt::print(stderr, "{}: {}\n", kMigParted, what);
  return 1;
}

// The exit status of a command, whose error is printed.
int printed(const Result<int>& status) {
  return status ? *status : failed(to_string(status.error()));
}

Result<MigNode> this_node(const Process& process) {
  gpu::NvmlSettings settings;
  if (const auto root = config::variable(process.environment, kDriverRoot); !root.empty()) settings.driver_root = root;
  return read_mig_node(settings, config::variable(process.environment, kRunDir));
}

// A change of the GPUs between the commands of the hooks file.
class HookedChange {
 public:
  HookedChange(const PartedOptions& options, const Process& process, PlanOf plan_of)
      : options_(options),
        process_(process),
        plan_of_(std::move(plan_of)),
        environment_(process.environment.begin(), process.environment.end()) {
    environment_["MIG_PARTED_CONFIG_FILE"] = options.config_file;
    environment_["MIG_PARTED_SELECTED_CONFIG"] = options.selected;
    environment_["MIG_PARTED_HOOKS_FILE"] = options.hooks_file;
    environment_[kSkipReset] = options.skip_reset ? "true" : "false";
    environment_[kModeOnly] = options.mode_only ? "true" : "false";
  }

  // `done` is printed after a success.
  Result<int> run(const char* done) {
    if (!options_.hooks_file.empty()) {
      const auto text = os::read_file(options_.hooks_file);
      if (!text) return failed("cannot read the hooks file: " + to_string(text.error()));
      auto parsed = mig::parse_hooks_file(*text, options_.hooks_file);
      if (print_problems(parsed.problems)) return 1;
      hooks_ = std::move(parsed.hooks);
    }
    TRY_STATUS(run_hooks("apply-start"));
    const int status = printed(change());
    TRY_STATUS(run_hooks("apply-exit"));
    if (status == 0) fmt::print("{}\n", done);
    return status;
  }

 private:
  Result<int> change() {
    TRY(MigNode node, this_node(process_));
    for (const auto& sentence : node.silent) fmt::print(stderr, "{}: {}\n", kMigParted, sentence);
    const auto plan = plan_of_(node);
    if (print_problems(plan.problems)) return 1;
    const bool mode_changes = std::ranges::any_of(plan.gpus, &mig::GpuPlan::mode_changes);
    if (mode_changes) {
      TRY_STATUS(run_hooks("pre-apply-mode"));
    }
    if (!options_.mode_only && !plan.as_wanted()) {
      TRY_STATUS(run_hooks("pre-apply-config"));
    }
    if (mode_changes || !plan.as_wanted()) {  // hooks end programs: read the holders again
      TRY(node, this_node(process_));
    }
    const auto now = plan_of_(node);
    const int status = carry_out(node, now, kMigParted, !options_.skip_reset || options_.mode_only);
    if (status != kMigNeedsReset) return status == 0 ? 0 : 1;
    if (options_.skip_reset) return options_.mode_only ? 0 : 1;  // the caller must reset then
    node.admin.reset();  // the driver refuses a reset while a program has the GPU open
    // As mig-parted does if a change of the mode requires it, but only for these GPUs.
    for (const auto& gpu : now.gpus) {
      if (!gpu.matched || gpu.as_wanted || !gpu.mode_changes()) continue;
      if (const auto done = mig::reset_gpu(config::variable(process_.environment, kDriverRoot), gpu.now.uuid,
                                           {process_.environment.begin(), process_.environment.end()});
          !done)
        return failed(
            fmt::format("GPU {} ({}) could not be reset: {}", gpu.now.index, gpu.now.name, to_string(done.error())));
    }
    TRY(node, this_node(process_));
    return carry_out(node, plan_of_(node), kMigParted, false) == 0 ? 0 : 1;
  }

  // Runs the commands of one stage in order, up to the first that fails.
  Status run_hooks(const char* stage) {
    for (const auto& hook : hooks_[stage])
      if (auto done = run_hook(hook); !done)
        return std::unexpected(within(std::move(done).error(), fmt::format("hook {}", stage)));
    return {};
  }

  Status run_hook(const mig::Hook& hook) const {
    os::Command command;
    command.argv = {os::program_in_path(hook.command, config::variable(process_.environment, "PATH", "/usr/bin:/bin"))};
    if (command.argv[0].empty()) command.argv[0] = hook.command;
    command.argv.insert(command.argv.end(), hook.args.begin(), hook.args.end());
    command.env = environment_;
    for (const auto& [name, value] : hook.envs) command.env[name] = value;
    command.work_dir = hook.workdir;
    std::fflush(stdout);
    command.output = STDOUT_FILENO;
    TRY(const auto ended, os::run_to_end(command));
    const auto& note = ended.note;
    if (note.signalled || note.code != 0)
      return fail(Kind::kUnavailable, "it " + os::to_string(note), command.argv.front());
    return {};
  }

  const PartedOptions& options_;
  const Process& process_;
  PlanOf plan_of_;
  mig::Hooks hooks_;
  std::map<std::string, std::string> environment_;
};

// nullopt: the error was printed.
std::optional<mig::Configuration> selected_configuration(const PartedOptions& options) {
  if (!options.config_file.empty()) return choose_configuration(options.config_file, options.selected, {});
  failed("missing required flags '[config-file]': name a file with --config-file or $MIG_PARTED_CONFIG_FILE");
  return std::nullopt;
}

Result<int> parted_assert(PartedOptions& options, const Process& process) {
  const auto configuration = selected_configuration(options);
  if (!configuration) return 1;
  if (options.valid_only) {
    fmt::print("Selected MIG configuration is valid\n");
    return 0;
  }
  TRY(const auto node, this_node(process));
  const auto differences = mig::differences(*configuration, node.gpus, options.mode_only);
  if (differences.empty()) {
    fmt::print("{}", options.mode_only ? "Selected MIG mode settings from configuration currently applied\n"
                                       : "Selected MIG configuration currently applied\n");
    return 0;
  }
  for (const auto& difference : differences) fmt::print(stderr, "{}\n", difference);
  return failed("Assertion failure: selected configuration not currently applied");
}

Result<int> parted_apply(PartedOptions& options, const Process& process) {
  const auto configuration = selected_configuration(options);
  if (!configuration) return 1;
  options.selected = configuration->name;
  const auto plan_of = [&](const MigNode& node) {
    return mig::make_plan(*configuration, node.gpus, options.mode_only);
  };
  return HookedChange(options, process, plan_of).run("MIG configuration applied successfully");
}

// "-" for the standard input.
Result<mig::Checkpoint> read_checkpoint(const std::string& path) {
  TRY(const std::string text, read_given(path));
  auto parsed = mig::parse_checkpoint(text);
  if (!parsed && path != "-") return std::unexpected(within(std::move(parsed).error(), path));
  return parsed;
}

int checkpoint_file_is_missing() {
  return failed(
      "missing required flags 'checkpoint-file': name a file with --checkpoint-file or "
      "$MIG_PARTED_CHECKPOINT_FILE");
}

Result<int> parted_checkpoint(PartedOptions& options, const Process& process) {
  if (options.checkpoint_file.empty()) return checkpoint_file_is_missing();
  TRY(const auto node, this_node(process));
  if (!node.silent.empty()) return fail(Kind::kUnavailable, "a checkpoint needs every GPU; " + join(node.silent, "; "));
  const std::string text = mig::checkpoint_text(node.gpus);
  if (options.checkpoint_file == "-") {
    fmt::print("{}", text);
  } else {
    const auto [directory, name] = os::parts_of(options.checkpoint_file);
    TRY(const auto folder, os::Dir::open(directory));
    TRY_STATUS(folder.write_atomically(name, text, 0644, os::Sync::kYes));
  }
  fmt::print("MIG configuration checkpointed successfully\n");
  return 0;
}

Result<int> parted_restore(PartedOptions& options, const Process& process) {
  if (options.checkpoint_file.empty()) return checkpoint_file_is_missing();
  TRY(const auto checkpoint, read_checkpoint(options.checkpoint_file));
  const auto plan_of = [&](const MigNode& node) {
    return mig::restoring_plan(checkpoint, node.gpus, options.mode_only, options.checkpoint_file);
  };
  return HookedChange(options, process, plan_of).run("MIG configuration restored successfully");
}

Result<int> parted_export(PartedOptions& options, const Process& process) {
  TRY(const auto node, this_node(process));
  TRY_STATUS(write_configurations(mig::exported(node.gpus, options.label), options.format, options.output_file));
  return 0;
}

Result<int> parted_generate(PartedOptions& options, const Process& process) {
  TRY(const auto node, this_node(process));
  TRY_STATUS(write_configurations(mig::default_configurations(node.gpus), options.format, options.output_file));
  return 0;
}

// Options of `command`; nullptr = unknown command.
using Run = Result<int> (*)(PartedOptions&, const Process&);
Run add_command(const std::string& command, CLI::App& app, PartedOptions& o) {
  const auto option = [&](const char* flags, std::string& value, const char* help) {
    add_variable_option(app, flags, value, help, "MIG_PARTED_");
  };
  const auto add_configuration = [&] {
    option("--config-file,-f", o.config_file, "configuration file; \"-\" is the standard input");
    option("--selected-config,-c", o.selected, "name of the configuration in the file");
  };
  const auto add_hooks = [&] { option("--hooks-file,-k", o.hooks_file, "commands to run around the change"); };
  const auto add_format = [&] { option("--output-format,-o", o.format, "json or yaml"); };
  if (command == "assert") {
    add_configuration();
    app.add_flag("--mode-only,-m", o.mode_only, "compare the MIG mode alone")->envname(kModeOnly);
    app.add_flag("--valid-config,-a", o.valid_only, "only that the configuration exists and can be read")
        ->envname("MIG_PARTED_VALID_CONFIG");
    return parted_assert;
  }
  if (command == "apply") {
    add_configuration();
    add_hooks();
    app.add_flag("--skip-reset,-s", o.skip_reset, "with --mode-change-only: a mode that waits for a reset is a success")
        ->envname(kSkipReset);
    app.add_flag("--mode-change-only,--mode-only,-m", o.mode_only, "change the MIG mode alone")->envname(kModeOnly);
    return parted_apply;
  }
  if (command == "export") {
    add_format();
    option("--config-label,-l", o.label, "name of the configuration");
    return parted_export;
  }
  if (command == "checkpoint" || command == "restore") {
    option("--checkpoint-file,-f", o.checkpoint_file, "file with the state of all GPUs");
    if (command == "checkpoint") return parted_checkpoint;
    add_hooks();
    app.add_flag("--mode-only,-m", o.mode_only, "change the MIG mode alone")->envname(kModeOnly);
    return parted_restore;
  }
  if (command == "generate-config") {
    add_format();
    option("--output-file,-f", o.output_file, "file to write; empty is the standard output");
    return parted_generate;
  }
  return nullptr;
}

constexpr const char* kUsage =
    "Tranche as NVIDIA's mig-parted: the same configuration file, flags and variables.\n"
    "Usage: nvidia-mig-parted [--debug] COMMAND [FLAGS]\n\n"
    "  apply            partition the GPUs as a configuration says\n"
    "  assert           whether they are\n"
    "  export           what they have now, as a configuration\n"
    "  generate-config  the default configurations of these GPUs\n"
    "  checkpoint       write what they have now to a file\n"
    "  restore          partition the GPUs as such a file says\n\n"
    "`tranche mig` shows plans and profiles.\n";

}  // namespace

int mig_parted(const std::vector<std::string>& arguments, Process& process) {
  auto at = arguments.begin();
  for (; at != arguments.end() && at->starts_with('-'); ++at) {
    const std::string flag =
        at->substr(at->find_first_not_of('-') == std::string::npos ? 0 : at->find_first_not_of('-'));
    if (flag == "d" || flag == "debug" || flag.starts_with("debug="))
      continue;  // no effect: errors include the details
    if (flag == "h" || flag == "help") break;
    if (flag == "v" || flag == "version") {
      CLI::App app("", kMigParted);
      return read_as_nvidias(app, {"--version"}).value_or(0);
    }
    return failed("flag provided but not defined: " + in_quotes(*at) + "; before the command stands --debug alone");
  }
  if (at == arguments.end() || *at == "help" || *at == "h" || at->starts_with('-')) {
    fmt::print("{}", kUsage);
    return 0;
  }
  const std::string command = *at;
  CLI::App app("Tranche as NVIDIA's mig-parted", std::string(kMigParted) + " " + command);
  PartedOptions options;
  const Run run = add_command(command, app, options);
  if (run == nullptr)
    return failed("there is no command " + in_quotes(command) +
                  "; the commands are apply, assert, checkpoint, export, generate-config, restore");
  if (const auto status = read_as_nvidias(app, {at + 1, arguments.end()})) return *status;
  return printed(run(options, process));
}

}  // namespace tranche::cli
