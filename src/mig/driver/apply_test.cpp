#include "mig/driver/apply.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/driver/sim_fixture.h"

namespace tranche::mig {
namespace {

constexpr const char* kPlain = "gpus:\n  - {profile: A100-PCIE-40GB, mig: [2g.10gb, 1g.5gb, 1g.5gb]}\n";
constexpr const char* kWrites[] = {"nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy",
                                   "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"};

using Places = std::vector<std::tuple<std::uint32_t, Placement, std::vector<Placement>>>;
Places places_of(const GpuState& gpu) {
  Places places;
  for (const auto& instance : gpu.instances) {
    auto& compute = std::get<2>(places.emplace_back(instance.profile_id, instance.placement, std::vector<Placement>()));
    for (const auto& one : instance.compute) compute.push_back(one.placement);
  }
  return places;
}

struct Bed : gpu::nvml::SimFixture {
  explicit Bed(const std::string& yaml = kPlain) : gpu::nvml::SimFixture(yaml) {
    open();
    uuid = node().gpus()[0].uuid;
  }
  void open() {
    admin.reset();
    auto opened = gpu::MigAdmin::open(settings());
    ASSERT_TRUE(opened) << to_string(opened.error());
    admin = *std::move(opened);
  }
  Places layout() { return places_of(read()); }
  GpuState read() { return admin->read(uuid).value_or(GpuState{}); }
  MigOutcome apply(GpuState target, MigCallbacks callbacks = {}) {
    callbacks.pause = [](Duration) { return true; };
    target.uuid = uuid;
    return apply_layout(*admin, target, callbacks);
  }
  // A child process that changes the layout and is killed on its way.
  void killed_on_its_way(const GpuState& target) {
    const pid_t child = ::fork();
    if (child == 0) {
      apply(target);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
  }

  std::unique_ptr<gpu::MigAdmin> admin;
  std::string uuid;
};

GpuInstance three_at(std::uint32_t start) {
  return {kNotMadeYet, 9, {start, 4}, {{.placement = {0, 3}}}};
}
GpuState cut(std::vector<GpuInstance> instances) {
  return {.enabled = true, .instances = std::move(instances)};
}
const GpuState kThrees = cut({three_at(0), three_at(4)});

TEST(MigApply, ReachesTheLayout) {
  Bed bed;
  const auto outcome = bed.apply(kThrees);
  EXPECT_EQ(outcome.what, MigOutcome::What::kDone) << outcome.why;
  EXPECT_EQ(bed.layout(), places_of(kThrees));
  EXPECT_EQ(outcome.steps.size(), 10u) << "six to destroy three instances, four to create two";
  EXPECT_TRUE(bed.apply(kThrees).steps.empty()) << "nothing to do";
}

// Promise: mig/apply: An instance in use is never destroyed; what stays keeps its MIG device.
TEST(MigApply, KeepsWhatStaysAndDestroysNothingThatIsInUse) {
  Bed bed("gpus:\n  - {profile: A100-PCIE-40GB, mig: [3g.20gb, 1g.5gb]}\n");
  const auto before = bed.read();
  const auto stays = std::ranges::find(before.instances, 9u, &GpuInstance::profile_id);
  const auto goes = std::ranges::find(before.instances, 19u, &GpuInstance::profile_id);
  ASSERT_TRUE(stays != before.instances.end() && goes != before.instances.end());
  bed.node().add_made_up_process({.pid = 5, .gpu = 0, .bytes = 1, .gpu_instance = goes->id, .compute_instance = 0});
  bed.node().add_made_up_process({.pid = 6, .gpu = 0, .bytes = 1, .gpu_instance = stays->id, .compute_instance = 0});
  auto outcome = bed.apply(kThrees);
  EXPECT_EQ(outcome.what, MigOutcome::What::kInUse);
  EXPECT_EQ(outcome.holders, std::vector<std::string>{"process 5"});
  EXPECT_TRUE(outcome.steps.empty());
  bed.node().detach(5, 0);
  MigCallbacks held;
  held.users = [](const std::string&) { return std::vector<Holder>{{"pod team/job"}}; };
  EXPECT_EQ(bed.apply(kThrees, held).what, MigOutcome::What::kInUse) << "by the caller's word";
  outcome = bed.apply(kThrees);
  ASSERT_EQ(outcome.what, MigOutcome::What::kDone) << outcome.why;
  const auto after = bed.read();
  const auto still = std::ranges::find(after.instances, stays->id, &GpuInstance::id);
  ASSERT_TRUE(still != after.instances.end());
  EXPECT_EQ(still->compute, stays->compute);
}

// Promise: mig/plan: The steps that a plan shows are the calls that are made, one by one.
TEST(MigApply, TakesTheStepsOfThePlan) {
  Bed bed;
  const GpuInstance divided{
      kNotMadeYet, 9, {0, 4}, {{.placement = {0, 1}}, {.placement = {1, 1}}, {.placement = {2, 1}}}};
  for (const GpuState& target : {kThrees, cut({divided, three_at(4)}), cut({}), cut({divided}), kThrees, GpuState{}}) {
    std::vector<std::string> planned;
    for (const auto& step : plan_to(bed.read(), target).steps) planned.push_back(to_string(step));
    if (!target.enabled) planned.pop_back();  // the reset is the caller's
    EXPECT_EQ(bed.apply(target).steps, planned) << layout_text(target);
  }
}

TEST(MigApply, TrustsNoSuccessAndNoFailure) {
  for (const char* call : {"nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"}) {
    Bed bed;
    bed.fault(sim::FaultKind::kLie, call, 0, 1, 1);
    EXPECT_EQ(bed.apply(kThrees).what, MigOutcome::What::kDone) << call;
    EXPECT_EQ(bed.node().gpu_state(0).mig_lies, 1u);
    EXPECT_EQ(bed.layout(), places_of(kThrees));
  }
}

// Promise: mig/apply: A driver call that fails once is repeated; one that keeps failing leaves the layout as before.
TEST(MigApply, ACallThatFailsIsRepeatedOrWhatWasDoneIsUndone) {
  for (const char* call : kWrites) {
    for (std::uint32_t skip = 0; skip < 3; ++skip) {
      SCOPED_TRACE(std::string(call) + " after " + std::to_string(skip));
      Bed bed;
      const auto before = bed.layout();
      bed.fault(sim::FaultKind::kFail, call, 999, skip, 1);
      EXPECT_EQ(bed.apply(kThrees).what, MigOutcome::What::kDone);
      EXPECT_EQ(bed.layout(), places_of(kThrees));
    }
    Bed bed;
    const auto before = bed.layout();
    bed.fault(sim::FaultKind::kFail, call, 999, 1, 4);
    const auto outcome = bed.apply(kThrees);
    EXPECT_EQ(outcome.what, MigOutcome::What::kFailed);
    EXPECT_NE(outcome.why.find("the layout is as before"), std::string::npos) << outcome.why;
    EXPECT_EQ(bed.layout(), before);
  }
}

TEST(MigApply, SaysWhatIsLeftWhereNothingCanBeUndone) {
  Bed bed;
  bed.fault(sim::FaultKind::kFail, "nvmlDeviceCreateGpuInstanceWithPlacement", 999, 0, 0);
  const auto outcome = bed.apply(kThrees);
  EXPECT_EQ(outcome.what, MigOutcome::What::kFailed);
  EXPECT_EQ(outcome.left, "MIG on, no instances");
}

// Promise: mig/apply: A change that was killed between any two driver calls is finished by the next process.
TEST(MigApply, KilledBeforeOrAfterAnyCallItGoesOn) {
  for (const auto kind : {sim::FaultKind::kKill, sim::FaultKind::kKillAfter}) {
    for (const char* call : kWrites) {
      for (std::uint32_t skip = 0; skip < 3; ++skip) {
        SCOPED_TRACE(std::string(call) + " after " + std::to_string(skip));
        Bed bed;
        bed.fault(kind, call, 0, skip, 1);
        bed.killed_on_its_way(kThrees);
        bed.node().clear_faults();
        bed.open();
        EXPECT_EQ(bed.apply(kThrees).what, MigOutcome::What::kDone);
        EXPECT_EQ(bed.layout(), places_of(kThrees));
      }
    }
  }
}

TEST(MigApply, OnAmpereAModeChangeWaitsForAResetAndThenGoesOn) {
  Bed bed("gpus: {profile: A100-PCIE-40GB, count: 1}\n");
  auto outcome = bed.apply(kThrees);
  EXPECT_EQ(outcome.what, MigOutcome::What::kNeedsReset);
  EXPECT_EQ(outcome.steps.size(), 1u);
  bed.node().update_gpu(0, [](sim::GpuState& state) { state.mig_mode = state.mig_pending; });
  EXPECT_EQ(bed.apply(kThrees).what, MigOutcome::What::kDone);
  EXPECT_EQ(bed.layout(), places_of(kThrees));
  EXPECT_EQ(bed.apply({}).what, MigOutcome::What::kNeedsReset);
  EXPECT_TRUE(bed.read().instances.empty());
}

TEST(MigApply, OnHopperTheModeChangesAtOnceWhenIdle) {
  Bed bed("gpus: {profile: H200, count: 1}\n");
  bed.node().add_made_up_process({.pid = 9, .gpu = 0, .bytes = 1});
  EXPECT_EQ(bed.apply(kThrees).what, MigOutcome::What::kInUse);
  bed.node().detach(9, 0);
  EXPECT_EQ(bed.apply(kThrees).what, MigOutcome::What::kDone);
  EXPECT_EQ(bed.apply({}).what, MigOutcome::What::kDone);
  EXPECT_FALSE(bed.read().enabled);
}

}  // namespace
}  // namespace tranche::mig
