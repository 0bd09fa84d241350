#include "mig/driver/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "gpu/driver/abi.h"
#include "os/files/kept.h"

namespace tranche::mig {
namespace {

using namespace std::chrono_literals;

constexpr int kTries = 4;  // of one call that does not do what it should
constexpr Duration kFirstPause = 25ms;
constexpr int kMostSteps = 400;  // more than any two layouts are apart: something else changes the GPU meanwhile
constexpr int kMostCalls = 40;   // of one partition

using Json = nlohmann::json;

constexpr std::string_view kPrefix = "mig-";
constexpr std::string_view kSuffix = ".json";

std::string file_of(const std::string& gpu) {
  return std::string(kPrefix) + gpu + std::string(kSuffix);
}

Json to_json(const Layout& layout) {
  Json instances = Json::array();
  for (const Part& part : layout.parts) {
    Json compute = Json::array();
    for (const auto& at : part.compute) compute.push_back({{"start", at.start}, {"size", at.size}});
    instances.push_back({{"profileId", part.profile_id},
                         {"profile", part.profile},
                         {"start", part.placement.start},
                         {"size", part.placement.size},
                         {"compute", std::move(compute)}});
  }
  return {{"enabled", layout.enabled}, {"instances", std::move(instances)}};
}

Placement placement_from(const Json& object) {
  return {static_cast<std::uint32_t>(count_at(object, "start")), static_cast<std::uint32_t>(count_at(object, "size"))};
}

std::optional<Layout> layout_from(const Json& object) {
  if (!object.is_object()) return std::nullopt;
  Layout layout{.enabled = truth_at(object, "enabled")};
  for (const Json& one : list_at(object, "instances")) {
    layout.parts.push_back(
        {static_cast<std::uint32_t>(count_at(one, "profileId")), text_at(one, "profile"), placement_from(one)});
    for (const Json& compute : list_at(one, "compute")) {
      if (!compute.is_object()) return std::nullopt;
      layout.parts.back().compute.push_back(placement_from(compute));
    }
  }
  return layout;
}

Json to_json(const MigChange& change) {
  return {{"gpu", change.gpu},
          {"config", change.config},
          {"boot", change.boot},
          {"before", to_json(change.before)},
          {"target", to_json(change.target)},
          {"waitsForReset", change.waits_for_reset},
          {"step", change.step},
          {"stepReturned", change.step_returned},
          {"made", change.made}};
}

std::optional<MigChange> change_from(const Json& object) {
  MigChange change;
  change.gpu = text_at(object, "gpu");
  const auto before = layout_from(member_at(object, "before"));
  const auto target = layout_from(member_at(object, "target"));
  if (change.gpu.empty() || !before || !target) return std::nullopt;
  change.config = text_at(object, "config");
  change.boot = text_at(object, "boot");
  change.before = *before;
  change.target = *target;
  change.waits_for_reset = truth_at(object, "waitsForReset");
  change.step = text_at(object, "step");
  change.step_returned = truth_at(object, "stepReturned");
  for (const Json& one : list_at(object, "made"))
    if (one.is_string()) change.made.push_back(one.get<std::string>());
  return change;
}

bool stopped(const MigCallbacks& callbacks) {
  return callbacks.stop && callbacks.stop();
}

bool pause(const MigCallbacks& callbacks, int attempt) {
  const Duration wait = kFirstPause * (1 << (2 * (attempt - 1)));  // 25, 100, 400 ms
  return callbacks.pause ? callbacks.pause(wait) : !stopped(callbacks);
}

// How often one step comes again, because its call has not done what it should.
class Tries {
 public:
  enum class Now { kTake, kStop, kGiveUp };
  explicit Tries(const MigCallbacks& callbacks) : callbacks_(callbacks) {}
  Now before(const Step& step) {  // pauses before a repetition
    if (stopped(callbacks_)) return Now::kStop;
    tries_ = step == last_ ? tries_ + 1 : 0;
    last_ = step;
    if (tries_ == kTries) return Now::kGiveUp;
    return tries_ == 0 || pause(callbacks_, tries_) ? Now::kTake : Now::kStop;
  }

 private:
  const MigCallbacks& callbacks_;
  std::optional<Step> last_;
  int tries_ = 0;
};

// Makes the driver's call of a step.
Result<gpu::MigAdmin::Activation> perform(gpu::MigAdmin& admin, const std::string& gpu_uuid, const Step& step) {
  using What = Step::What;
  using Activation = gpu::MigAdmin::Activation;
  const std::uint32_t instance = step.instance.value_or(0);
  const auto at_once = [](const Status& done) -> Result<Activation> {
    TRY_STATUS(done);
    return Activation::kActive;
  };
  switch (step.what) {
    case What::kModeOn:
    case What::kModeOff:
      return admin.set_mode(gpu_uuid, step.what == What::kModeOn);
    case What::kDestroyCompute:
      return at_once(admin.destroy_compute_instance(gpu_uuid, instance, step.compute.value_or(0)));
    case What::kDestroyInstance:
      return at_once(admin.destroy_gpu_instance(gpu_uuid, instance));
    case What::kCreateInstance:
      return at_once(admin.create_gpu_instance(gpu_uuid, step.profile_id, step.placement));
    case What::kCreateCompute:
      return at_once(admin.create_compute_instance(gpu_uuid, instance, step.compute_placement.size));
    case What::kReset:
      break;  // not by this library
  }
  return Activation::kNeedsReset;
}

class LayoutChange {
 public:
  LayoutChange(gpu::MigAdmin& admin, const MigChangeFiles& files, const MigCallbacks& callbacks)
      : admin_(admin), files_(files), callbacks_(callbacks) {}

  MigOutcome run(const std::string& gpu_uuid, const Layout& target, const std::string& config) {
    const auto gpu = read(gpu_uuid);
    if (!gpu) return {.what = MigOutcome::What::kFailed, .why = "the GPU cannot be read: " + to_string(gpu.error())};
    MigChange change{
        .gpu = gpu_uuid, .config = config, .boot = os::boot_id(), .before = layout_of(*gpu), .target = target};
    std::vector<std::string> lost;
    for (auto& begun : files_.unfinished(lost))  // what the GPU was cut into before the first change that failed to end
      if (begun.gpu == gpu_uuid && begun.boot == change.boot && !begun.waits_for_reset)
        change.before = std::move(begun.before);
    return walk(change);
  }

 private:
  Result<GpuState> read(const std::string& gpu_uuid) {
    for (int attempt = 1;; ++attempt) {
      auto gpu = admin_.read(gpu_uuid);
      if (gpu || attempt == kTries || !pause(callbacks_, attempt)) return gpu;
    }
  }

  MigOutcome go(MigChange& change, const Layout& target) {
    MigOutcome outcome;
    Tries tries(callbacks_);
    std::string problem;
    bool refused_as_used = false;
    const auto end = [&](MigOutcome::What what, std::string why) {
      outcome.what = what;
      outcome.why = std::move(why);
      return outcome;
    };
    for (int count = 0; count < kMostSteps; ++count) {
      auto gpu = read(change.gpu);
      if (!gpu) return end(MigOutcome::What::kFailed, "the GPU cannot be read: " + to_string(gpu.error()));
      if (!gpu->capable) return end(MigOutcome::What::kFailed, "the GPU does not support MIG");
      add_users(*gpu, callbacks_.users);
      outcome.now = layout_of(*gpu);
      const auto step = next_step(*gpu, target);
      if (!step) return end(MigOutcome::What::kDone, "");
      const auto now = tries.before(*step);
      if (now == Tries::Now::kStop) return end(MigOutcome::What::kStopped, "");
      if (step->what == Step::What::kReset)
        return end(MigOutcome::What::kNeedsReset, "the MIG mode takes effect with a reset of the GPU");
      if (now == Tries::Now::kGiveUp && refused_as_used) {
        outcome.holders = {"a program that the driver does not list (a monitoring daemon, for example)"};
        return end(MigOutcome::What::kInUse, "cannot " + to_string(*step) + ": " + problem);
      }
      if (now == Tries::Now::kGiveUp)
        return end(MigOutcome::What::kFailed,
                   to_string(*step) + " failed " + std::to_string(kTries) + " times: " +
                       (problem.empty() ? "the driver reports success and the GPU is as before" : problem));
      if (destroys(*step)) {
        // All of the way, so that no instance is destroyed for a layout that a later one is in the way of.
        for (const auto& blocker : plan_to(*gpu, target).blockers)
          for (const auto& holder : blocker.holders)
            if (std::ranges::find(outcome.holders, holder.who) == outcome.holders.end())
              outcome.holders.push_back(holder.who);
        if (!outcome.holders.empty())
          return end(MigOutcome::What::kInUse,
                     "cannot " + to_string(*step) + ": in use by " + join(outcome.holders, ", "));
      }
      change.step = to_string(*step);
      change.step_returned = false;
      if (const auto written = files_.write(change); !written)
        return end(MigOutcome::What::kFailed,
                   "the change cannot be recorded, so it is not made: " + to_string(written.error()));
      if (callbacks_.on_step) callbacks_.on_step(*step);
      outcome.steps.push_back(change.step);
      const auto done = perform(admin_, change.gpu, *step);
      problem = done ? "" : to_string(done.error());
      if (done && *done == gpu::MigAdmin::Activation::kInUse) problem = "the driver reports that the GPU is in use";
      refused_as_used = destroys(*step) && (done ? *done == gpu::MigAdmin::Activation::kInUse
                                                 : done.error().code == static_cast<int>(gpu::nvml::Return::kInUse));
      change.step_returned = true;
      if (done && !destroys(*step)) change.made.push_back(change.step);
      (void)files_.write(change);  // the record of the intent is what counts
    }
    return end(MigOutcome::What::kFailed,
               "another program changes the GPU at the same time; check that no second MIG manager runs");
  }

  MigOutcome walk(MigChange& change) {
    MigOutcome outcome = go(change, change.target);
    change.waits_for_reset = outcome.what == MigOutcome::What::kNeedsReset;
    if (outcome.what == MigOutcome::What::kNeedsReset) (void)files_.write(change);
    if (outcome.what != MigOutcome::What::kFailed || outcome.steps.empty()) {
      if (outcome.what == MigOutcome::What::kDone || outcome.what == MigOutcome::What::kFailed)
        (void)files_.forget(change.gpu);
      return outcome;
    }
    MigOutcome undone = go(change, change.before);
    undone.steps.insert(undone.steps.begin(), outcome.steps.begin(), outcome.steps.end());
    if (undone.what == MigOutcome::What::kStopped) return undone;
    undone.why = undone.what == MigOutcome::What::kDone
                     ? outcome.why + "; the layout is as before"
                     : outcome.why + "; the layout before it is not restored: " + undone.why;
    if (undone.what != MigOutcome::What::kDone) undone.left = to_string(undone.now);
    undone.what = MigOutcome::What::kFailed;
    (void)files_.forget(change.gpu);
    return undone;
  }

  gpu::MigAdmin& admin_;
  const MigChangeFiles& files_;
  const MigCallbacks& callbacks_;
};

class PartitionChange {
 public:
  PartitionChange(gpu::MigAdmin& admin, std::string gpu_uuid, const MigPartition& wanted, const MigCallbacks& callbacks)
      : admin_(admin), gpu_uuid_(std::move(gpu_uuid)), wanted_(wanted), callbacks_(callbacks) {}

  MigPartitionOutcome run() {
    if (wanted_.what == MigPartition::What::kRemove)
      outcome_.status = walk([this] { return next_to_remove(); });
    else
      outcome_.status = walk([this] { return next_to_make(); });
    if (!outcome_.status && made_any_ && wanted_.what == MigPartition::What::kMake) {
      outcome_.uuid.clear();
      wanted_.uuid.clear();
      if (const auto undone = walk([this] { return next_to_remove(); }); !undone) {
        outcome_.status.error().what += "; what was made of it is still there: " + to_string(undone.error());
        outcome_.status.error().kind = Kind::kUnavailable;
      }
    }
    return std::move(outcome_);
  }

 private:
  using Next = Result<std::optional<Step>>;  // nullopt: it is as wanted

  template <class Derive>
  Status walk(const Derive& derive) {
    Tries tries(callbacks_);
    Status problem;
    for (int calls = 0; calls < kMostCalls; ++calls) {
      TRY_STATUS(read());
      TRY(const auto step, derive());
      if (!step) return {};
      const auto now = tries.before(*step);
      if (now == Tries::Now::kStop) return fail(Kind::kUnavailable, "this agent ends; kubelet asks again");
      if (now == Tries::Now::kGiveUp) {
        if (problem) problem = fail(Kind::kUnavailable, "the driver reports success, and the GPU is as before");
        return std::unexpected(within(with_cause(problem.error(), *step), "cannot " + to_string(*step)));
      }
      if (callbacks_.on_step) callbacks_.on_step(*step);
      problem = take(*step);
    }
    return fail(Kind::kUnavailable,
                "another program changes the instances of the GPU; check that no second MIG manager runs");
  }

  // What an operator can change: the agent's rights, and the processes that the driver lists on what is destroyed.
  Error with_cause(Error error, const Step& step) const {
    if (error.code == static_cast<int>(gpu::nvml::Return::kNoPermission))
      error.what += "; run the node agent privileged (dra.partitions: true in the chart's values)";
    if (!destroys(step)) return error;
    const auto* there = here();
    if (there == nullptr || there->holders.empty()) return error;
    error.kind = Kind::kConflict;
    error.what += "; it is in use by process ";
    error.what += join(there->holders, ", ", [](const Holder& holder) { return std::to_string(holder.pid); });
    return error;
  }

  Status read() {
    TRY(gpu_, admin_.read(gpu_uuid_));
    outcome_.now = gpu_;
    return {};
  }

  template <class Test>
  const GpuInstance* find(Test test) const {
    const auto at = std::ranges::find_if(gpu_.instances, test);
    return at == gpu_.instances.end() ? nullptr : &*at;
  }
  const GpuInstance* here() const {
    return find([this](const auto& one) { return one.is_at(wanted_.instance.profile_id, wanted_.instance.place); });
  }
  const GpuInstance* in_the_way() const {
    return find([this](const auto& one) { return overlap(one.placement, wanted_.instance.place); });
  }

  Step step_of(Step::What what, const GpuInstance* there) const {
    return {.what = what,
            .instance = there == nullptr ? std::nullopt : std::optional(there->id),
            .profile_id = wanted_.instance.profile_id,
            .profile = profile_name(gpu_.profiles, wanted_.instance.profile_id),
            .placement = wanted_.instance.place};
  }

  std::unexpected<Error> foreign(const GpuInstance& instance) const {
    return fail(Kind::kConflict,
                fmt::format("the GPU has a MIG instance {} at {} that was not made for this claim; destroy it, or "
                            "delete the claim and its pods so that the scheduler chooses again",
                            profile_name(gpu_.profiles, instance.profile_id), to_string(instance.placement)));
  }

  Next next_to_make() {
    if (!gpu_.enabled)
      return fail(Kind::kUnavailable,
                  "MIG mode of the GPU is off; switch it on (nvidia-smi -mig 1), kubelet asks again");
    const auto* there = here();
    if (there == nullptr) {
      if (const auto* other = in_the_way()) return foreign(*other);
      if (wanted_.what == MigPartition::What::kFind)
        return fail(Kind::kNotFound, "the MIG instance of the claim is gone");
      if (wanted_.what == MigPartition::What::kLook) return std::nullopt;
      return step_of(Step::What::kCreateInstance, nullptr);
    }
    if (wanted_.what == MigPartition::What::kLook) return foreign(*there);
    if (wanted_.what == MigPartition::What::kMake && !made_any_) return foreign(*there);
    for (const auto& compute : there->compute) {
      if (wanted_.what == MigPartition::What::kFind && compute.uuid != wanted_.uuid) return foreign(*there);
      if (compute.placement.size != wanted_.instance.slices) return foreign(*there);
      outcome_.uuid = compute.uuid;
      if (!compute.uuid.empty()) return std::nullopt;
    }
    if (wanted_.what == MigPartition::What::kFind)
      return fail(Kind::kNotFound, "the compute instance of the claim's MIG instance is gone");
    Step step = step_of(Step::What::kCreateCompute, there);
    step.compute_placement.size = wanted_.instance.slices;
    return step;
  }

  Next next_to_remove() {
    const auto* there = gpu_.enabled ? here() : nullptr;
    if (there == nullptr) return std::nullopt;
    Step step = step_of(Step::What::kDestroyInstance, there);
    if (there->compute.empty()) return step;
    // A different program has made this one, after the caller's was destroyed from outside.
    if (!wanted_.uuid.empty() &&
        std::ranges::find(there->compute, wanted_.uuid, &ComputeInstance::uuid) == there->compute.end())
      return std::nullopt;
    step.what = Step::What::kDestroyCompute;
    step.compute = there->compute.front().id;
    return step;
  }

  Status take(const Step& step) {
    // From here on the UUID is not to be found, and what is left is still the caller's.
    if (step.what == Step::What::kDestroyCompute) wanted_.uuid.clear();
    const auto done = perform(admin_, gpu_uuid_, step);
    if (!done) return std::unexpected(done.error());
    made_any_ = made_any_ || step.what == Step::What::kCreateInstance;
    return {};
  }

  gpu::MigAdmin& admin_;
  std::string gpu_uuid_;
  MigPartition wanted_;
  const MigCallbacks& callbacks_;
  MigPartitionOutcome outcome_;
  GpuState gpu_;           // as it was read last
  bool made_any_ = false;  // by this change
};

}  // namespace

Result<MigChangeFiles> MigChangeFiles::open(const std::string& folder) {
  TRY(os::Dir dir, os::Dir::create(folder));
  return MigChangeFiles(std::move(dir));
}

Status MigChangeFiles::write(const MigChange& change) const {
  return os::write_kept(folder_, file_of(change.gpu), json_text(to_json(change)) + "\n", 0644);
}

Status MigChangeFiles::forget(const std::string& gpu) const {
  return folder_.remove(file_of(gpu));
}

std::vector<MigChange> MigChangeFiles::unfinished(std::vector<std::string>& lost) const {
  std::vector<MigChange> changes;
  for (const std::string& name : folder_.list().value_or(std::vector<std::string>())) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const os::KeptFile kept = os::read_kept(folder_, name);
    if (!kept.lost.empty()) lost.push_back(kept.lost);
    if (!kept.text) continue;
    if (auto change = change_from(json_of(*kept.text)); change && file_of(change->gpu) == name) {
      changes.push_back(*std::move(change));
    } else {
      lost.push_back(os::put_aside(folder_, name, "it is not a record of a MIG change"));
    }
  }
  return changes;
}

MigOutcome apply_layout(gpu::MigAdmin& admin, const MigChangeFiles& files, const std::string& gpu_uuid,
                        const Layout& target, const std::string& config, const MigCallbacks& callbacks) {
  return LayoutChange(admin, files, callbacks).run(gpu_uuid, target, config);
}

MigPartitionOutcome change_partition(gpu::MigAdmin& admin, const std::string& gpu_uuid, const MigPartition& partition,
                                     const MigCallbacks& callbacks) {
  return PartitionChange(admin, gpu_uuid, partition, callbacks).run();
}

}  // namespace tranche::mig
