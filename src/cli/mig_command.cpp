#include "cli/mig_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "mig/driver/apply.h"
#include "os/files/files.h"
#include "os/socket/status_socket.h"

namespace tranche::cli {
namespace {

// The pods that hold devices, as reported by the node agent.
mig::Users users_of(const std::string& run_dir) {
  if (run_dir.empty()) return {};
  const auto answer = os::ask(run_dir + "/node.sock", "status", std::chrono::seconds(2));
  if (!answer) return {};
  return [status = json_of(*answer)](const std::string& uuid) {
    std::vector<mig::Holder> holders;
    for (const auto& grant : list_at(status, "grants"))
      for (const auto& device : list_at(grant, "devices"))
        if (text_at(device, "uuid") == uuid)
          holders.push_back(
              mig::pod_holder(text_at(grant, "namespace"), text_at(grant, "pod"), text_at(grant, "container")));
    return holders;
  };
}

// Prints why a GPU was not changed, and returns the exit status.
int report(const mig::MigOutcome& outcome, const mig::GpuPlan& gpu, bool resets, const char* program) {
  const std::string which = fmt::format("{}: GPU {} ({})", program, gpu.now.index, gpu.now.name);
  switch (outcome.what) {
    case mig::MigOutcome::What::kDone:
      return 0;
    case mig::MigOutcome::What::kInUse:
      fmt::print(stderr, "{} is in use: {}; end it and try again\n", which,
                 outcome.holders.empty() ? outcome.why : join(outcome.holders, ", "));
      return kMigHeld;
    case mig::MigOutcome::What::kNeedsReset:
      if (!resets)
        fmt::print(stderr,
                   "{} needs a reset before the MIG mode takes effect: nvidia-smi --gpu-reset -i {} with no process "
                   "on it, or a restart of the machine; then apply the configuration again\n",
                   which, gpu.now.index);
      return kMigNeedsReset;
    case mig::MigOutcome::What::kStopped:
    case mig::MigOutcome::What::kFailed:
      break;
  }
  fmt::print(stderr, "{} could not be changed: {}{}\n", which, outcome.why,
             outcome.left.empty() ? "" : "; it has now: " + outcome.left);
  return kMigFailed;
}

void report_blockers(const mig::Plan& plan, const char* program) {
  for (const auto& gpu : plan.gpus) {
    for (const auto& blocker : gpu.blockers)
      fmt::print(stderr, "{}: GPU {} ({}): {} is held by {}\n", program, gpu.now.index, gpu.now.name, blocker.what,
                 mig::list_of(blocker.holders));
    if (!gpu.fits_beside.empty())
      fmt::print(stderr, "{}: GPU {}: beside what is held, this much of the configuration fits: {}\n", program,
                 gpu.now.index, gpu.fits_beside);
  }
}

}  // namespace

Result<MigNode> read_mig_node(const gpu::NvmlSettings& settings, const std::string& run_dir) {
  MigNode node;
  TRY(node.admin, gpu::MigAdmin::open(settings));
  TRY(node.gpus, node.admin->read(node.silent));
  const auto users = users_of(run_dir);
  for (auto& gpu : node.gpus) mig::add_users(gpu, users);
  return node;
}

std::optional<mig::Configuration> choose_configuration(const std::string& path, const std::string& name,
                                                       const std::vector<mig::GpuState>& gpus) {
  mig::ParsedFile parsed;
  std::string source = "the default configurations of these GPUs";
  if (path.empty()) {
    parsed.file = mig::default_configurations(gpus);
  } else {
    source = path == "-" ? "standard input" : path;
    const auto text = read_given(path);
    if (text)
      parsed = mig::parse_configuration_file(*text, source);
    else
      parsed.problems = {error_in(path, to_string(text.error()), "name a readable file")};
  }
  if (print_problems(parsed.problems)) return std::nullopt;
  const auto chosen = mig::select_configuration(parsed.file, name, source);
  if (chosen) return **chosen;
  print_problems({chosen.error()});
  return std::nullopt;
}

Status write_configurations(const mig::ConfigurationFile& file, const std::string& format, const std::string& path) {
  if (format != "json" && format != "yaml")
    return fail(Kind::kInvalid, "unrecognized 'output-format': " + in_quotes(format) + "; write json or yaml");
  const std::string text = format == "json" ? mig::to_json_text(file) + "\n" : mig::to_yaml(file);
  if (path.empty()) {
    fmt::print("{}", text);
    return {};
  }
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out.good() ? Status{} : fail(Kind::kUnavailable, "cannot write " + path);
}

int carry_out(MigNode& node, const mig::Plan& plan, const char* program, bool resets,
              const std::function<void(const std::string&)>& say) {
  if (!plan.possible()) return kMigUnusable;
  if (plan.blocked()) {
    report_blockers(plan, program);
    return kMigHeld;
  }
  if (plan.as_wanted()) return 0;
  mig::MigCallbacks callbacks;
  callbacks.on_step = [&](const mig::Step& step) {
    if (say) say(mig::to_string(step));
  };
  int worst = 0;
  for (const auto& gpu : plan.gpus) {
    if (!gpu.matched || gpu.as_wanted) continue;
    if (say) say(fmt::format("GPU {} ({}): to {}", gpu.now.index, gpu.now.name, mig::layout_text(gpu.after)));
    const auto outcome = mig::apply_layout(*node.admin, gpu.after, callbacks);
    worst = std::max(worst, report(outcome, gpu, resets, program));
  }
  return worst;
}

}  // namespace tranche::cli
