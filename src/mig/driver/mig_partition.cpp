#include "mig/driver/mig_partition.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "gpu/driver/abi.h"

namespace tranche::host {
namespace {

using namespace std::chrono_literals;

constexpr int kMostTries = 4;  // of one call that does not do what it should
constexpr Duration kShortestPause = 25ms;
constexpr int kMostCalls = 40;

class PartitionChange {
 public:
  PartitionChange(MigAdmin& admin, std::string gpu_uuid, const MigPartition& wanted,
                  const MigApply::Callbacks& callbacks)
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
  using Next = Result<std::optional<mig::Step>>;  // nullopt: it is as wanted

  template <class Derive>
  Status walk(const Derive& derive) {
    std::optional<mig::Step> last;
    Status problem;
    int tries = 0;
    for (int calls = 0; calls < kMostCalls; ++calls) {
      TRY_STATUS(read());
      TRY(const auto step, derive());
      if (!step) return {};
      if (callbacks_.stop && callbacks_.stop()) return fail(Kind::kUnavailable, "this agent ends; kubelet asks again");
      tries = step == last ? tries + 1 : 0;
      last = step;
      if (tries == kMostTries) {
        if (problem) problem = fail(Kind::kUnavailable, "the driver reports success, and the GPU is as before");
        return std::unexpected(within(with_cause(problem.error(), *step), "cannot " + to_string(*step)));
      }
      if (tries > 0 && callbacks_.pause && !callbacks_.pause(kShortestPause * (1 << (2 * (tries - 1)))))
        return fail(Kind::kUnavailable, "this agent ends; kubelet asks again");
      if (callbacks_.on_step) callbacks_.on_step(*step);
      problem = take(*step);
    }
    return fail(Kind::kUnavailable, "the instances of the GPU change all the time; does a second program make them?");
  }

  // What an operator can change: the agent's rights, and the processes that the driver lists on what is destroyed.
  Error with_cause(Error error, const mig::Step& step) const {
    if (error.code == static_cast<int>(nvml::Return::kNoPermission))
      error.what += "; run the node agent privileged (dra.partitions: true in the chart's values)";
    if (!destroys(step)) return error;
    std::vector<std::string> pids;
    if (const auto* there = here())
      for (const auto& holder : there->holders) pids.push_back(std::to_string(holder.pid));
    if (pids.empty()) return error;
    error.kind = Kind::kConflict;
    error.what += "; it is in use by process " + join(pids, ", ");
    return error;
  }

  Status read() {
    auto gpu = admin_.read(gpu_uuid_);
    if (!gpu) return std::unexpected(gpu.error());
    gpu_ = *std::move(gpu);
    outcome_.now = gpu_;
    return {};
  }

  const mig::GpuInstance* here() const {
    const auto at = std::ranges::find_if(gpu_.instances, [this](const mig::GpuInstance& one) {
      return one.profile_id == wanted_.profile_id && one.placement == wanted_.place;
    });
    return at == gpu_.instances.end() ? nullptr : &*at;
  }

  const mig::GpuInstance* in_the_way() const {
    const auto at = std::ranges::find_if(
        gpu_.instances, [this](const mig::GpuInstance& one) { return mig::overlap(one.placement, wanted_.place); });
    return at == gpu_.instances.end() ? nullptr : &*at;
  }

  mig::Step step_of(mig::Step::What what, const mig::GpuInstance* there) const {
    return {.what = what,
            .instance = there == nullptr ? std::nullopt : std::optional(there->id),
            .profile_id = wanted_.profile_id,
            .profile = mig::profile_name(gpu_.profiles, wanted_.profile_id),
            .placement = wanted_.place};
  }

  std::unexpected<Error> foreign(const mig::GpuInstance& instance) const {
    return fail(Kind::kConflict,
                fmt::format("the GPU has a MIG instance {} at {} that was not made for this claim; destroy it, or "
                            "delete the claim and its pods so that the scheduler chooses again",
                            mig::profile_name(gpu_.profiles, instance.profile_id), mig::to_string(instance.placement)));
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
      return step_of(mig::Step::What::kCreateInstance, nullptr);
    }
    if (wanted_.what == MigPartition::What::kLook) return foreign(*there);
    if (wanted_.what == MigPartition::What::kMake && !made_any_) return foreign(*there);
    for (const auto& compute : there->compute) {
      if (wanted_.what == MigPartition::What::kFind && compute.uuid != wanted_.uuid) return foreign(*there);
      if (compute.placement.size != wanted_.slices) return foreign(*there);
      outcome_.uuid = compute.uuid;
      if (!compute.uuid.empty()) return std::nullopt;
    }
    if (wanted_.what == MigPartition::What::kFind)
      return fail(Kind::kNotFound, "the compute instance of the claim's MIG instance is gone");
    mig::Step step = step_of(mig::Step::What::kCreateCompute, there);
    step.compute_placement.size = wanted_.slices;
    return step;
  }

  Next next_to_remove() {
    const auto* there = gpu_.enabled ? here() : nullptr;
    if (there == nullptr) return std::nullopt;
    mig::Step step = step_of(mig::Step::What::kDestroyInstance, there);
    if (there->compute.empty()) return step;
    // A different program has made this one, after the caller's was destroyed from outside.
    if (!wanted_.uuid.empty() &&
        std::ranges::find(there->compute, wanted_.uuid, &mig::ComputeInstance::uuid) == there->compute.end())
      return std::nullopt;
    step.what = mig::Step::What::kDestroyCompute;
    step.compute = there->compute.front().id;
    return step;
  }

  Status take(const mig::Step& step) {
    // From here on the UUID is not to be found, and what is left is still the caller's.
    if (step.what == mig::Step::What::kDestroyCompute) wanted_.uuid.clear();
    const auto done = perform(admin_, gpu_uuid_, step);
    if (!done) return std::unexpected(done.error());
    made_any_ = made_any_ || step.what == mig::Step::What::kCreateInstance;
    return {};
  }

  MigAdmin& admin_;
  std::string gpu_uuid_;
  MigPartition wanted_;
  const MigApply::Callbacks& callbacks_;
  MigPartitionOutcome outcome_;
  mig::GpuState gpu_;      // as it was read last
  bool made_any_ = false;  // by this change
};

}  // namespace

MigPartitionOutcome change_partition(MigAdmin& admin, const std::string& gpu_uuid, const MigPartition& partition,
                                     const MigApply::Callbacks& callbacks) {
  return PartitionChange(admin, gpu_uuid, partition, callbacks).run();
}

}  // namespace tranche::host
