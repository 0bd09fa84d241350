#include "cli/mig_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "mig/defaults.h"
#include "mig/driver/apply.h"
#include "os/files/files.h"
#include "os/socket/status_socket.h"

namespace tranche::cli {
namespace {

// The pods that hold devices, as reported by the node agent.
mig::Users users_of(const std::string& run_dir) {
  if (run_dir.empty()) return {};
  const auto answer = host::ask(run_dir + "/node.sock", "status", std::chrono::seconds(2));
  if (!answer) return {};
  std::vector<std::pair<std::string, mig::Holder>> held;
  const auto status = json_of(*answer);
  for (const auto& grant : list_at(status, "grants"))
    for (const auto& device : list_at(grant, "devices"))
      held.emplace_back(text_at(device, "uuid"),
                        mig::Holder{fmt::format("pod {}/{} (container {})", text_at(grant, "namespace"),
                                                text_at(grant, "pod"), text_at(grant, "container")),
                                    0});
  return [held = std::move(held)](const std::string& uuid) {
    std::vector<mig::Holder> holders;
    for (const auto& [device, holder] : held)
      if (device == uuid) holders.push_back(holder);
    return holders;
  };
}

std::string read_input() {
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

int status_of(const host::MigOutcome& outcome) {
  switch (outcome.what) {
    case host::MigOutcome::What::kDone:
      return 0;
    case host::MigOutcome::What::kInUse:
      return kMigHeld;
    case host::MigOutcome::What::kNeedsReset:
      return kMigNeedsReset;
    case host::MigOutcome::What::kStopped:
    case host::MigOutcome::What::kFailed:
      return kMigFailed;
  }
  return kMigFailed;
}

void report(const host::MigOutcome& outcome, const mig::GpuPlan& gpu, const char* program) {
  const std::string which = fmt::format("{}: GPU {} ({})", program, gpu.now.index, gpu.now.name);
  switch (outcome.what) {
    case host::MigOutcome::What::kDone:
      return;
    case host::MigOutcome::What::kInUse:
      fmt::print(stderr, "{} is in use: {}; end it and try again\n", which,
                 outcome.holders.empty() ? outcome.why : join(outcome.holders, ", "));
      return;
    case host::MigOutcome::What::kNeedsReset:
      fmt::print(stderr,
                 "{} needs a reset before the MIG mode takes effect: nvidia-smi --gpu-reset -i {} with no process on "
                 "it, or a restart of the machine; then apply the configuration again\n",
                 which, gpu.now.index);
      return;
    case host::MigOutcome::What::kStopped:
    case host::MigOutcome::What::kFailed:
      fmt::print(stderr, "{} could not be changed: {}{}\n", which, outcome.why,
                 outcome.left.empty() ? "" : "; it has now: " + outcome.left);
      return;
  }
}

void report_blockers(const mig::Plan& plan, const char* program) {
  for (const auto& gpu : plan.gpus) {
    for (const auto& blocker : gpu.blockers) {
      std::vector<std::string> who;
      for (const auto& holder : blocker.holders) who.push_back(holder.who);
      fmt::print(stderr, "{}: GPU {} ({}): {} is held by {}\n", program, gpu.now.index, gpu.now.name, blocker.what,
                 who.empty() ? "a process that the driver does not name" : join(who, ", "));
    }
    if (!gpu.fits_beside.empty())
      fmt::print(stderr, "{}: GPU {}: beside what is held, this much of the configuration fits: {}\n", program,
                 gpu.now.index, gpu.fits_beside);
  }
}

}  // namespace

Result<MigNode> read_mig_node(const host::NvmlSettings& settings, const std::string& run_dir) {
  MigNode node;
  TRY(node.admin, host::MigAdmin::open(settings));
  TRY(node.gpus, node.admin->read(node.silent));
  const auto users = users_of(run_dir);
  for (auto& gpu : node.gpus) mig::add_users(gpu, users);
  return node;
}

int status_of(const Error& error) {
  return error.kind == Kind::kDenied ? kMigDenied : kMigFailed;
}

LoadedConfigurations load_configurations(const std::string& path, const std::vector<mig::GpuState>& gpus) {
  LoadedConfigurations loaded;
  if (path.empty()) {
    loaded.source = "the default configurations of these GPUs";
    loaded.file = mig::default_configurations(gpus);
    return loaded;
  }
  loaded.source = path == "-" ? "standard input" : path;
  std::string text;
  if (path == "-") {
    text = read_input();
  } else if (auto read = host::read_file(path)) {
    text = *std::move(read);
  } else {
    loaded.problems.push_back({Severity::kError, {path, 0, 0}, {}, to_string(read.error()), "name a readable file"});
    return loaded;
  }
  auto parsed = mig::parse_configuration_file(text, loaded.source);
  loaded.file = std::move(parsed.file);
  loaded.problems = std::move(parsed.problems);
  return loaded;
}

Status write_checkpoint(const MigNode& node, const std::string& path) {
  if (!node.silent.empty()) return fail(Kind::kUnavailable, "a checkpoint needs every GPU; " + join(node.silent, "; "));
  const std::string text = host::to_json_text(host::checkpoint_of(node.gpus));
  if (path == "-") {
    fmt::print("{}", text);
    return {};
  }
  const std::filesystem::path file(path);
  TRY(const auto folder, host::Dir::open(file.has_parent_path() ? file.parent_path().string() : "."));
  return folder.write_atomically(file.filename().string(), text, 0644, host::Sync::kYes);
}

Result<host::Checkpoint> read_checkpoint(const std::string& path) {
  if (path == "-") return host::parse_checkpoint(read_input());
  TRY(const std::string text, host::read_file(path));
  auto parsed = host::parse_checkpoint(text);
  if (!parsed) return std::unexpected(within(std::move(parsed).error(), path));
  return parsed;
}

int status_of(const mig::Plan& plan) {
  if (!plan.possible()) return kMigUnusable;
  if (plan.blocked()) return kMigHeld;
  return plan.needs_reset() ? kMigNeedsReset : 0;
}

int carry_out(MigNode& node, const mig::Plan& plan, const MigChangeOptions& options, const char* program) {
  if (!plan.possible()) return kMigUnusable;
  if (plan.blocked()) {
    report_blockers(plan, program);
    return kMigHeld;
  }
  if (plan.as_wanted()) return 0;
  const auto files = host::MigChangeFiles::open(options.run_dir + "/mig");
  if (!files) {
    fmt::print(stderr, "{}: cannot record what is under way: {}\n", program, to_string(files.error()));
    return status_of(files.error());
  }
  host::MigApply::Callbacks callbacks;
  callbacks.on_step = [&](const mig::Step& step) {
    if (options.say) options.say(mig::to_string(step));
  };
  host::MigApply engine(*node.admin, *files, std::move(callbacks));
  int worst = 0;
  for (const auto& gpu : plan.gpus) {
    if (!gpu.matched || gpu.as_wanted) continue;
    if (options.say)
      options.say(fmt::format("GPU {} ({}): to {}", gpu.now.index, gpu.now.name, mig::to_string(gpu.target)));
    const auto outcome = engine.run(gpu.now.uuid, gpu.target, plan.configuration);
    if (!options.resets || outcome.what != host::MigOutcome::What::kNeedsReset) report(outcome, gpu, program);
    worst = std::max(worst, status_of(outcome));
  }
  return worst;
}

}  // namespace tranche::cli
