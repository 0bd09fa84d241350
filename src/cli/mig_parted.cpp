// `nvidia-mig-parted` by name: its commands, flags, variables and exit statuses (only 0 and 1).
#include <fmt/format.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>

#include "base/text.h"
#include "cli/mig_command.h"
#include "cli/nvidia_arguments.h"
#include "cli/stand_in.h"
#include "cli/usage.h"
#include "config/enum_text.h"
#include "mig/defaults.h"
#include "mig/hooks.h"
#include "mig/live/gpu_reset.h"
#include "os/files/files.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::cli {
namespace {

constexpr const char* kDriverRoot = "DRIVER_ROOT_CTR_PATH";
constexpr const char* kRunDir = "TRANCHE_RUN_DIR";

struct PartedOptions {
  std::string config_file;
  std::string selected;
  std::string hooks_file;
  std::string skip_reset, mode_only, valid_only;
  std::string format = "yaml";
  std::string label = "current";
  std::string output_file;
  std::string checkpoint_file;
};
using PlanOf = std::function<mig::Plan(const MigNode&)>;

std::string variable(const Process& process, const char* name) {
  const auto found = process.environment.find(name);
  return found == process.environment.end() ? "" : found->second;
}

int failed(const std::string& what) {
  fmt::print(stderr, "{}: {}\n", kMigParted, what);
  return 1;
}

bool print_all(const std::vector<Problem>& problems) {
  print_problems(problems);
  return has_error(problems);
}

Result<MigNode> this_node(const Process& process) {
  host::NvmlSettings settings;
  if (const auto root = variable(process, kDriverRoot); !root.empty()) settings.driver_root = root;
  return read_mig_node(settings, variable(process, kRunDir));
}

void add_switch(CLI::App& app, const char* name, std::string& value, const char* env, const char* help) {
  app.add_flag(std::string(name) + "{true}", value, fmt::format("{} [${}]", help, env));
}

std::optional<bool> switch_value(const std::string& flag, const char* env, const Process& process) {
  const std::string& text = flag.empty() ? variable(process, env) : flag;
  return text.empty() ? std::optional(false) : config::parse_switch(text);
}

void add_config_options(CLI::App& app, PartedOptions& o) {
  app.add_option("--config-file,-f", o.config_file, "configuration file; \"-\" is the standard input")
      ->envname("MIG_PARTED_CONFIG_FILE");
  app.add_option("--selected-config,-c", o.selected, "name of the configuration in the file")
      ->envname("MIG_PARTED_SELECTED_CONFIG");
}

// Runs the commands of one stage in order, up to the first that fails.
class HookRunner {
 public:
  HookRunner(const PartedOptions& options, const Process& process) : environment_(process.environment) {
    environment_["MIG_PARTED_CONFIG_FILE"] = options.config_file;
    environment_["MIG_PARTED_SELECTED_CONFIG"] = options.selected;
    environment_["MIG_PARTED_HOOKS_FILE"] = options.hooks_file;
    for (const auto& [name, value] : {std::pair{"MIG_PARTED_SKIP_RESET", &options.skip_reset},
                                      std::pair{"MIG_PARTED_MODE_CHANGE_ONLY", &options.mode_only}}) {
      const auto on = switch_value(*value, name, process);
      environment_[name] = on && *on ? "true" : "false";
    }
  }

  Status run(const char* stage, const std::vector<mig::Hook>& hooks) const {
    for (const auto& hook : hooks)
      if (auto done = run(hook); !done)
        return std::unexpected(within(std::move(done).error(), fmt::format("hook {}", stage)));
    return {};
  }

 private:
  std::string path_of(const std::string& command) const {
    if (command.contains('/')) return command;
    const auto path = environment_.find("PATH");
    const std::string folders = path == environment_.end() ? "/usr/bin:/bin" : path->second;
    for (const auto folder : split(folders, ':'))
      if (const std::string candidate = std::string(folder) + "/" + command; ::access(candidate.c_str(), X_OK) == 0)
        return candidate;
    return command;
  }

  Status run(const mig::Hook& hook) const {
    TRY(const auto loop, host::Loop::open());
    host::Command command;
    command.argv = {path_of(hook.command)};
    command.argv.insert(command.argv.end(), hook.args.begin(), hook.args.end());
    command.env = environment_;
    for (const auto& [name, value] : hook.envs) command.env[name] = value;
    command.work_dir = hook.workdir;
    std::optional<host::ExitNote> note;
    TRY(const auto child, host::Process::start(
                              *loop, command, [](const std::string& line) { fmt::print("{}\n", line); },
                              [&](host::ExitNote ended) {
                                note = ended;
                                loop->stop();
                              }));
    loop->run();
    if (!note || note->signalled || note->code != 0)
      return fail(Kind::kUnavailable, note ? "it " + to_string(*note) : "it did not end", command.argv.front());
    return {};
  }

  std::map<std::string, std::string> environment_;
};

struct Chosen {
  LoadedConfigurations loaded;
  const mig::Configuration* configuration = nullptr;
};

// nullptr: the error was printed.
std::unique_ptr<Chosen> choose(const PartedOptions& options) {
  if (options.config_file.empty()) {
    failed("missing required flags '[config-file]': name a file with --config-file or $MIG_PARTED_CONFIG_FILE");
    return nullptr;
  }
  auto chosen = std::make_unique<Chosen>();
  chosen->loaded = load_configurations(options.config_file, {});
  if (print_all(chosen->loaded.problems)) return nullptr;
  const auto found = mig::select_configuration(chosen->loaded.file, options.selected, chosen->loaded.source);
  if (!found) {
    fmt::print(stderr, "{}\n", to_string(found.error()));
    return nullptr;
  }
  chosen->configuration = *found;
  return chosen;
}

int parted_assert(const PartedOptions& options, const Process& process) {
  const auto mode_only = switch_value(options.mode_only, "MIG_PARTED_MODE_CHANGE_ONLY", process);
  const auto valid_only = switch_value(options.valid_only, "MIG_PARTED_VALID_CONFIG", process);
  if (!mode_only || !valid_only) return failed("a switch is neither true nor false");
  const auto chosen = choose(options);
  if (chosen == nullptr) return 1;
  if (*valid_only) {
    fmt::print("Selected MIG configuration is valid\n");
    return 0;
  }
  const auto node = this_node(process);
  if (!node) return failed(to_string(node.error()));
  const auto differences = mig::differences(*chosen->configuration, node->gpus, *mode_only);
  if (differences.empty()) {
    fmt::print("{}", *mode_only ? "Selected MIG mode settings from configuration currently applied\n"
                                : "Selected MIG configuration currently applied\n");
    return 0;
  }
  for (const auto& difference : differences) fmt::print(stderr, "{}\n", difference);
  return failed("Assertion failure: selected configuration not currently applied");
}

// As mig-parted does if a change of the mode requires it, but only for that GPU.
Status reset_gpu(const std::string& driver_root, const std::string& uuid, const Process& process) {
  TRY(const auto loop, host::Loop::open());
  Status outcome = fail(Kind::kUnavailable, "nvidia-smi did not end");
  agent::GpuReset reset(*loop, process.environment, [&](const Status& status) {
    outcome = status;
    loop->stop();
  });
  TRY_STATUS(reset.start(driver_root, uuid));
  loop->run();
  return outcome;
}

// Between the hooks of the start and the end.
int change(const PartedOptions& options, const mig::Hooks& hooks, const HookRunner& runner, const PlanOf& plan_of,
           bool mode_only, const Process& process) {
  auto node = this_node(process);
  if (!node) return failed(to_string(node.error()));
  const auto plan = plan_of(*node);
  if (print_all(plan.problems)) return 1;
  const bool mode_changes = std::ranges::any_of(plan.gpus, &mig::GpuPlan::mode_changes);
  if (mode_changes)
    if (const auto done = runner.run("pre-apply-mode", hooks.pre_apply_mode); !done)
      return failed(to_string(done.error()));
  if (!mode_only && !plan.as_wanted())
    if (const auto done = runner.run("pre-apply-config", hooks.pre_apply_config); !done)
      return failed(to_string(done.error()));
  if (mode_changes || !plan.as_wanted()) {  // hooks end programs: read the holders again
    node = this_node(process);
    if (!node) return failed(to_string(node.error()));
  }
  const auto now = plan_of(*node);
  MigChangeOptions how;
  if (const auto run_dir = variable(process, kRunDir); !run_dir.empty()) how.run_dir = run_dir;
  const auto skip = switch_value(options.skip_reset, "MIG_PARTED_SKIP_RESET", process);
  how.resets = !skip || !*skip || mode_only;
  int status = carry_out(*node, now, how, kMigParted);
  if (status != kMigNeedsReset) return status == 0 ? 0 : 1;
  if (skip && *skip) return mode_only ? 0 : 1;  // the caller must reset then
  how.resets = false;
  node->admin.reset();  // the driver refuses a reset while a program has the GPU open
  for (const auto& gpu : now.gpus) {
    if (!gpu.matched || gpu.as_wanted || !gpu.mode_changes()) continue;
    if (const auto done = reset_gpu(variable(process, kDriverRoot), gpu.now.uuid, process); !done)
      return failed(
          fmt::format("GPU {} ({}) could not be reset: {}", gpu.now.index, gpu.now.name, to_string(done.error())));
  }
  node = this_node(process);
  if (!node) return failed(to_string(node.error()));
  status = carry_out(*node, plan_of(*node), how, kMigParted);
  return status == 0 ? 0 : 1;
}

// A change between its hooks; `done` is printed after a success.
int with_hooks(const PartedOptions& options, const PlanOf& plan_of, bool mode_only, const char* done,
               const Process& process) {
  mig::Hooks hooks;
  if (!options.hooks_file.empty()) {
    const auto text = host::read_file(options.hooks_file);
    if (!text) return failed("cannot read the hooks file: " + to_string(text.error()));
    auto parsed = mig::parse_hooks_file(*text, options.hooks_file);
    if (print_all(parsed.problems)) return 1;
    hooks = std::move(parsed.hooks);
  }
  const HookRunner runner(options, process);
  int status = 1;
  if (const auto begun = runner.run("apply-start", hooks.apply_start); begun)
    status = change(options, hooks, runner, plan_of, mode_only, process);
  else
    return failed(to_string(begun.error()));
  if (const auto ended = runner.run("apply-exit", hooks.apply_exit); !ended) status = failed(to_string(ended.error()));
  if (status == 0) fmt::print("{}\n", done);
  return status;
}

int parted_apply(const PartedOptions& options, const Process& process) {
  const auto mode_only = switch_value(options.mode_only, "MIG_PARTED_MODE_CHANGE_ONLY", process);
  if (!mode_only || !switch_value(options.skip_reset, "MIG_PARTED_SKIP_RESET", process))
    return failed("a switch is neither true nor false");
  const auto chosen = choose(options);
  if (chosen == nullptr) return 1;
  PartedOptions with_name = options;
  with_name.selected = chosen->configuration->name;
  return with_hooks(
      with_name,
      [&](const MigNode& node) { return mig::make_plan(*chosen->configuration, node.gpus, {.mode_only = *mode_only}); },
      *mode_only, "MIG configuration applied successfully", process);
}

int checkpoint_file_is_missing() {
  return failed(
      "missing required flags 'checkpoint-file': name a file with --checkpoint-file or "
      "$MIG_PARTED_CHECKPOINT_FILE");
}

int parted_checkpoint(const PartedOptions& options, const Process& process) {
  if (options.checkpoint_file.empty()) return checkpoint_file_is_missing();
  const auto node = this_node(process);
  if (!node) return failed(to_string(node.error()));
  if (const auto written = write_checkpoint(*node, options.checkpoint_file); !written)
    return failed(to_string(written.error()));
  fmt::print("MIG configuration checkpointed successfully\n");
  return 0;
}

int parted_restore(const PartedOptions& options, const Process& process) {
  const auto mode_only = switch_value(options.mode_only, "MIG_PARTED_MODE_CHANGE_ONLY", process);
  if (!mode_only) return failed("a switch is neither true nor false");
  if (options.checkpoint_file.empty()) return checkpoint_file_is_missing();
  const auto checkpoint = read_checkpoint(options.checkpoint_file);
  if (!checkpoint) return failed(to_string(checkpoint.error()));
  return with_hooks(
      options,
      [&](const MigNode& node) {
        return host::restoring_plan(*checkpoint, node.gpus, *mode_only, options.checkpoint_file);
      },
      *mode_only, "MIG configuration restored successfully", process);
}

int write_file(const mig::ConfigurationFile& file, const PartedOptions& options) {
  if (options.format != "json" && options.format != "yaml")
    return failed("unrecognized 'output-format': " + in_quotes(options.format) + "; write json or yaml");
  const std::string text = options.format == "json" ? mig::to_json_text(file) + "\n" : mig::to_yaml(file);
  if (options.output_file.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  std::ofstream out(options.output_file, std::ios::binary);
  out << text;
  out.close();
  return out.good() ? 0 : failed("cannot write " + options.output_file);
}

int parted_export(const PartedOptions& options, const Process& process) {
  const auto node = this_node(process);
  if (!node) return failed(to_string(node.error()));
  return write_file(mig::exported(node->gpus, options.label), options);
}

int parted_generate(const PartedOptions& options, const Process& process) {
  const auto node = this_node(process);
  if (!node) return failed(to_string(node.error()));
  return write_file(mig::default_configurations(node->gpus), options);
}

// Options of `command`; nullptr = unknown command.
using Run = int (*)(const PartedOptions&, const Process&);
Run add_command(const std::string& command, CLI::App& app, PartedOptions& o) {
  const auto add_output = [&](const char* env) {
    app.add_option("--output-format,-o", o.format, "json or yaml")->envname(env)->capture_default_str();
  };
  if (command == "assert") {
    add_config_options(app, o);
    add_switch(app, "--mode-only,-m", o.mode_only, "MIG_PARTED_MODE_CHANGE_ONLY", "compare the MIG mode alone");
    add_switch(app, "--valid-config,-a", o.valid_only, "MIG_PARTED_VALID_CONFIG",
               "only that the configuration exists and can be read");
    return parted_assert;
  }
  if (command == "apply") {
    add_config_options(app, o);
    app.add_option("--hooks-file,-k", o.hooks_file, "commands to run around the change")
        ->envname("MIG_PARTED_HOOKS_FILE");
    add_switch(app, "--skip-reset,-s", o.skip_reset, "MIG_PARTED_SKIP_RESET",
               "with --mode-change-only: a mode that waits for a reset is a success");
    add_switch(app, "--mode-change-only,--mode-only,-m", o.mode_only, "MIG_PARTED_MODE_CHANGE_ONLY",
               "change the MIG mode alone");
    return parted_apply;
  }
  if (command == "export") {
    add_output("MIG_PARTED_OUTPUT_FORMAT");
    app.add_option("--config-label,-l", o.label, "name of the configuration")
        ->envname("MIG_PARTED_CONFIG_LABEL")
        ->capture_default_str();
    return parted_export;
  }
  if (command == "checkpoint" || command == "restore") {
    app.add_option("--checkpoint-file,-f", o.checkpoint_file, "file with the state of all GPUs")
        ->envname("MIG_PARTED_CHECKPOINT_FILE");
    if (command == "checkpoint") return parted_checkpoint;
    app.add_option("--hooks-file,-k", o.hooks_file, "commands to run around the change")
        ->envname("MIG_PARTED_HOOKS_FILE");
    add_switch(app, "--mode-only,-m", o.mode_only, "MIG_PARTED_MODE_CHANGE_ONLY", "change the MIG mode alone");
    return parted_restore;
  }
  if (command == "generate-config") {
    add_output("MIG_PARTED_OUTPUT_FORMAT");
    app.add_option("--output-file,-f", o.output_file, "file to write; empty is the standard output")
        ->envname("MIG_PARTED_OUTPUT_FILE");
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
      std::vector<std::string> rest;
      return read_as_nvidias(app, {"--version"}, rest).value_or(0);
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
  std::vector<std::string> rest;
  if (const auto status = read_as_nvidias(app, {at + 1, arguments.end()}, rest)) return *status;
  warn_of_ignored(app, rest);
  return run(options, process);
}

}  // namespace tranche::cli
