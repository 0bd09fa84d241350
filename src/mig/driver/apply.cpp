#include "mig/driver/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "gpu/driver/abi.h"
#include "os/files/files.h"
#include "os/process/process.h"

namespace tranche::mig {

namespace {

using namespace std::chrono_literals;

constexpr int kTries = 4;  // of one call that does not do what it should
constexpr Duration kFirstPause = 25ms;
constexpr int kMostSteps = 400;  // more than any two layouts are apart: something else changes the GPU meanwhile
constexpr Duration kResetPatience = 60s;

bool pause(const MigCallbacks& callbacks, int tries) {
  const Duration wait = tries == 0 ? Duration() : kFirstPause * (1 << (2 * (tries - 1)));  // 25, 100, 400 ms
  return !callbacks.pause || callbacks.pause(wait);
}

struct Walked {
  Status status{};              // why the GPU is not as wanted
  bool stopped = false;         // by the caller, and the GPU is not as wanted
  std::optional<Step> stuck{};  // the step that failed kTries times, for the reason of `status`
};

// Takes step after step until `next`, which derives each from what the GPU is then, has none or fails.
template <class Next, class Take>
Walked walk(gpu::MigAdmin& admin, const std::string& gpu_uuid, const MigCallbacks& callbacks, Next next, Take take) {
  std::optional<Step> last;
  Status taken;
  int tries = 0;
  for (int count = 0; count < kMostSteps; ++count) {
    auto gpu = admin.read(gpu_uuid);
    for (int attempt = 1; !gpu && attempt < kTries && pause(callbacks, attempt); ++attempt) gpu = admin.read(gpu_uuid);
    if (!gpu) return {std::unexpected(within(std::move(gpu).error(), "the GPU cannot be read"))};
    Result<std::optional<Step>> step = next(*gpu);
    if (!step) return {std::unexpected(std::move(step).error())};
    if (!*step) return {};
    tries = *step == last ? tries + 1 : 0;
    last = *std::move(step);
    if (tries == kTries && taken)
      taken = fail(Kind::kUnavailable, "the driver reports success and the GPU is as before");
    if (tries == kTries) return {.status = std::move(taken), .stuck = std::move(last)};
    if (!pause(callbacks, tries)) return {.stopped = true};
    taken = take(*last);
  }
  return {fail(Kind::kUnavailable,
               "another program changes the GPU at the same time; check that no second MIG manager runs")};
}

// before: as the GPU was read first.
MigOutcome change_to(gpu::MigAdmin& admin, const GpuState& target, const MigCallbacks& callbacks,
                     std::optional<GpuState>& before) {
  using What = MigOutcome::What;
  MigOutcome outcome;
  bool refused_as_used = false;
  const auto ends = [&](What what, std::string why) {
    outcome.what = what;
    return fail(Kind::kConflict, std::move(why));
  };
  const auto next = [&](GpuState& gpu) -> Result<std::optional<Step>> {
    if (!gpu.capable) return fail(Kind::kUnsupported, "the GPU does not support MIG");
    add_users(gpu, callbacks.users);
    outcome.now = gpu;
    if (!before) before = outcome.now;
    auto step = next_step(gpu, target);
    if (!step || !destroys(*step)) return step;
    if (step->what == Step::What::kReset)
      return ends(What::kNeedsReset, "the MIG mode takes effect with a reset of the GPU");
    // All of the way, so that no instance is destroyed for a layout that a later one is in the way of.
    for (const auto& blocker : plan_to(gpu, target).blockers)
      for (const auto& holder : blocker.holders)
        if (std::ranges::find(outcome.holders, holder.who) == outcome.holders.end())
          outcome.holders.push_back(holder.who);
    if (outcome.holders.empty()) return step;
    return ends(What::kInUse, "cannot " + to_string(*step) + ": in use by " + join(outcome.holders, ", "));
  };
  const auto take = [&](const Step& step) -> Status {
    if (callbacks.on_step) callbacks.on_step(step);
    outcome.steps.push_back(to_string(step));
    const auto done = admin.take(target.uuid, step);
    refused_as_used = destroys(step) && !done && done.error().code == static_cast<int>(gpu::nvml::Return::kInUse);
    return done;
  };
  const auto [status, is_stopped, stuck] = walk(admin, target.uuid, callbacks, next, take);
  if (!status) outcome.why = to_string(status.error());
  if (is_stopped) outcome.what = What::kStopped;
  if (status || outcome.what != What::kDone) return outcome;
  outcome.what = What::kFailed;
  if (stuck && refused_as_used) {
    outcome.what = What::kInUse;
    outcome.holders = {"a program that the driver does not list (a monitoring daemon, for example)"};
    outcome.why = "cannot " + to_string(*stuck) + ": " + outcome.why;
  } else if (stuck) {
    outcome.why = to_string(*stuck) + " failed " + std::to_string(kTries) + " times: " + outcome.why;
  }
  return outcome;
}

class PartitionChange {
 public:
  PartitionChange(gpu::MigAdmin& admin, std::string gpu_uuid, const MigPartition& wanted, const MigCallbacks& callbacks)
      : admin_(admin), gpu_uuid_(std::move(gpu_uuid)), wanted_(wanted), callbacks_(callbacks) {}

  MigPartitionOutcome run() {
    outcome_.status = go(wanted_.what == MigPartition::What::kRemove);
    if (!outcome_.status && made_any_ && wanted_.what == MigPartition::What::kMake) {
      outcome_.uuid.clear();
      wanted_.uuid.clear();
      if (const auto undone = go(true); !undone) {
        outcome_.status.error().what += "; what was made of it is still there: " + to_string(undone.error());
        outcome_.status.error().kind = Kind::kUnavailable;
      }
    }
    return std::move(outcome_);
  }

 private:
  Status go(bool removes) {
    const auto next = [&](GpuState& gpu) -> Result<std::optional<Step>> {
      outcome_.now = gpu;
      gpu.pending = gpu.enabled;  // a change of the mode is left alone
      TRY(const GpuState target, removes ? without(gpu) : with(gpu));
      return next_step(gpu, target);
    };
    const auto take = [&](const Step& step) -> Status {
      if (callbacks_.on_step) callbacks_.on_step(step);
      // From here on the UUID is not to be found, and what is left is still the caller's.
      if (step.what == Step::What::kDestroyCompute) wanted_.uuid.clear();
      const auto done = admin_.take(gpu_uuid_, step);
      made_any_ = made_any_ || (done && step.what == Step::What::kCreateInstance);
      return done;
    };
    auto [status, is_stopped, stuck] = walk(admin_, gpu_uuid_, callbacks_, next, take);
    if (is_stopped) return fail(Kind::kUnavailable, "this agent ends; kubelet asks again");
    if (stuck)
      return std::unexpected(within(with_cause(std::move(status).error(), *stuck), "cannot " + to_string(*stuck)));
    return status;
  }

  auto here(auto& instances) const { return find_at(instances, wanted_.instance.profile_id, wanted_.instance.place); }

  // What an operator can change: the agent's rights, and the processes that the driver lists on what is destroyed.
  Error with_cause(Error error, const Step& step) const {
    if (error.code == static_cast<int>(gpu::nvml::Return::kNoPermission))
      error.what += "; run the node agent privileged (dra.partitions: true in the chart's values)";
    const auto there = here(outcome_.now->instances);
    if (!destroys(step) || there == outcome_.now->instances.end() || there->holders.empty()) return error;
    error.kind = Kind::kConflict;
    error.what += "; it is in use by process ";
    error.what += join(there->holders, ", ", [](const Holder& holder) { return std::to_string(holder.pid); });
    return error;
  }

  std::unexpected<Error> foreign(const GpuState& gpu, const GpuInstance& instance) const {
    return fail(Kind::kConflict,
                fmt::format("the GPU has a MIG instance {} at {} that was not made for this claim; destroy it, or "
                            "delete the claim and its pods so that the scheduler chooses again",
                            profile_name(gpu.profiles, instance.profile_id), to_string(instance.placement)));
  }

  // What the GPU has now, with the instance.
  Result<GpuState> with(GpuState& gpu) {
    using What = MigPartition::What;
    if (!gpu.enabled)
      return fail(Kind::kUnavailable,
                  "MIG mode of the GPU is off; switch it on (nvidia-smi -mig 1), kubelet asks again");
    GpuState target = beside(gpu);
    if (const auto there = here(gpu.instances); there == gpu.instances.end()) {
      for (const auto& other : gpu.instances)
        if (overlap(other.placement, wanted_.instance.place)) return foreign(gpu, other);
      if (wanted_.what == What::kFind) return fail(Kind::kNotFound, "the MIG instance of the claim is gone");
      if (wanted_.what == What::kLook) return target;
    } else {
      if (wanted_.what == What::kLook || (wanted_.what == What::kMake && !made_any_)) return foreign(gpu, *there);
      for (const auto& compute : there->compute) {
        if (wanted_.what == What::kFind && compute.uuid != wanted_.uuid) return foreign(gpu, *there);
        if (compute.placement.size != wanted_.instance.slices) return foreign(gpu, *there);
        outcome_.uuid = compute.uuid;
      }
      if (outcome_.uuid.empty() && wanted_.what == What::kFind)
        return fail(Kind::kNotFound, "the compute instance of the claim's MIG instance is gone");
      if (outcome_.uuid.empty()) there->compute.clear();  // without a MIG device it does not count
    }
    const auto& [profile, slices, place] = wanted_.instance;
    target.instances.emplace_back(kNotMadeYet, profile, place).compute = {{.placement = {0, slices}}};
    return target;
  }

  // What the GPU has now, without the instance.
  GpuState without(GpuState& gpu) const {
    const auto there = here(gpu.instances);
    // A different program has made this one, after the caller's was destroyed from outside.
    const bool of_others =
        there != gpu.instances.end() && !wanted_.uuid.empty() && !there->compute.empty() &&
        std::ranges::find(there->compute, wanted_.uuid, &ComputeInstance::uuid) == there->compute.end();
    return of_others ? gpu : beside(gpu);
  }

  GpuState beside(GpuState gpu) const {
    if (const auto there = here(gpu.instances); there != gpu.instances.end()) gpu.instances.erase(there);
    return gpu;
  }

  gpu::MigAdmin& admin_;
  std::string gpu_uuid_;
  MigPartition wanted_;
  const MigCallbacks& callbacks_;
  MigPartitionOutcome outcome_;
  bool made_any_ = false;  // by this change
};

std::string first_of(const std::string& root, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::error_code failed;
    const std::string path = os::under_root(root, name);
    if (std::filesystem::exists(path, failed)) return path;
  }
  return {};
}

// The words that run it, of a driver root that is mounted at a different place with that root's own loader and
// libraries. kNotFound: the driver root has no nvidia-smi.
Result<std::vector<std::string>> reset_command(const std::string& driver_root, const std::string& gpu_uuid) {
  const std::string root = driver_root.empty() ? "/" : driver_root;
  const std::string program = first_of(root, {"/usr/bin/nvidia-smi", "/bin/nvidia-smi", "/usr/local/bin/nvidia-smi",
                                              "/usr/local/nvidia/bin/nvidia-smi", "/opt/bin/nvidia-smi"});
  if (program.empty()) return fail(Kind::kNotFound, "there is no nvidia-smi in the driver root", root);
  std::vector<std::string> words{program, "--gpu-reset", "-i", gpu_uuid};
  if (root == "/") return words;
  const std::string loader = first_of(root, {"/lib64/ld-linux-x86-64.so.2", "/usr/lib64/ld-linux-x86-64.so.2",
                                             "/lib/ld-linux-aarch64.so.1", "/usr/lib/ld-linux-aarch64.so.1"});
  if (loader.empty()) return words;
  std::vector<std::string> libraries;
  for (const char* folder :
       {"/usr/lib64", "/lib64", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
        "/lib/aarch64-linux-gnu", "/usr/lib", "/usr/local/nvidia/lib64"})
    libraries.push_back(root + folder);
  words.insert(words.begin(), {loader, "--library-path", join(libraries, ":")});
  return words;
}

}  // namespace

MigOutcome apply_layout(gpu::MigAdmin& admin, const GpuState& target, const MigCallbacks& callbacks) {
  using What = MigOutcome::What;
  std::optional<GpuState> before;
  MigOutcome outcome = change_to(admin, target, callbacks, before);
  if (outcome.what != What::kFailed || outcome.steps.empty()) return outcome;
  MigOutcome undone = change_to(admin, *before, callbacks, before);
  undone.steps.insert(undone.steps.begin(), outcome.steps.begin(), outcome.steps.end());
  if (undone.what == What::kStopped) return undone;
  undone.why = undone.what == What::kDone ? outcome.why + "; the layout is as before"
                                          : outcome.why + "; the layout before it is not restored: " + undone.why;
  if (undone.what != What::kDone) undone.left = layout_text(undone.now);
  undone.what = What::kFailed;
  return undone;
}

MigPartitionOutcome change_partition(gpu::MigAdmin& admin, const std::string& gpu_uuid, const MigPartition& partition,
                                     const MigCallbacks& callbacks) {
  return PartitionChange(admin, gpu_uuid, partition, callbacks).run();
}

Status reset_gpu(const std::string& driver_root, const std::string& gpu_uuid,
                 const std::map<std::string, std::string>& environment) {
  os::Command command{.env = environment, .kill_on_drop = true, .die_with_parent = true};
  TRY(command.argv, reset_command(driver_root, gpu_uuid));
  TRY(const auto ended, os::run_to_end(command, kResetPatience));
  if (!ended.note.signalled && ended.note.code == 0) return {};
  const auto lines = lines_of(trimmed(ended.output));
  return fail(Kind::kConflict, "nvidia-smi --gpu-reset " + os::to_string(ended.note) +
                                   (lines.empty() ? "" : ": " + std::string(lines.back())));
}

}  // namespace tranche::mig
