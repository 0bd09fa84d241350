#pragma once
// Shared by `tranche mig` and `nvidia-mig-parted`: the node's GPUs as MIG values, configurations from a file or
// generated for these GPUs, and the change itself. Blocking, one thread.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/problem.h"
#include "cli/commands.h"
#include "gpu/driver/mig/mig_admin.h"
#include "gpu/mig/state.h"
#include "mig/configuration.h"
#include "mig/mig_plan.h"

namespace tranche::cli {

// Exit statuses of `tranche mig`; nvidia-mig-parted has only 0 and 1.
inline constexpr int kMigFailed = 1;      // a driver error, or a change that was not carried out
inline constexpr int kMigUnusable = 2;    // the command line, the configuration, or a set without a layout
inline constexpr int kMigDiffers = 3;     // the node is not as configured
inline constexpr int kMigHeld = 4;        // a process or pod holds an instance that must be removed
inline constexpr int kMigNeedsReset = 5;  // the mode takes effect at a reset
inline constexpr int kMigDenied = 6;      // the driver refuses this user

struct MigNode {
  std::unique_ptr<gpu::MigAdmin> admin;  // nullptr = simulated
  std::vector<mig::GpuState> gpus;
  std::vector<std::string> silent;  // GPUs that did not answer, one sentence each
};

// The GPUs of this machine. Pods that hold devices are known if the node agent of `run_dir` answers; "" = do not ask
// it.
Result<MigNode> read_mig_node(const gpu::NvmlSettings& settings, const std::string& run_dir);

// The configuration of that name, without a name the only one: from a file, "-" for the standard input, or "" for the
// configurations that exist without a file. nullopt: the error was printed.
std::optional<mig::Configuration> choose_configuration(const std::string& path, const std::string& name,
                                                       const std::vector<mig::GpuState>& gpus);
// As "yaml" or "json", to the standard output if `path` is "".
Status write_configurations(const mig::ConfigurationFile& file, const std::string& format, const std::string& path);

// Carries out the plan. Changes nothing if the plan is impossible or an instance is in use; prints the reason to
// stderr. resets: the caller resets GPUs after a mode change, so a needed reset is not an error. say: one sentence per
// step.
int carry_out(MigNode& node, const mig::Plan& plan, const char* program, bool resets,
              const std::function<void(const std::string&)>& say = {});

void add_mig(CLI::App& app, Process& process);

}  // namespace tranche::cli
