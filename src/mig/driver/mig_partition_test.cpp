#include "mig/driver/apply.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/driver/sim_fixture.h"

namespace tranche::mig {
namespace partition_test {

using ::testing::HasSubstr;
using What = MigPartition::What;

struct Bed : gpu::nvml::SimFixture {
  explicit Bed(const std::string& mig = ", mig: []")
      : gpu::nvml::SimFixture("gpus:\n  - {profile: A100-PCIE-40GB" + mig + "}\n") {
    admin = *gpu::MigAdmin::open(settings());
    uuid = node().gpus()[0].uuid;
  }
  MigPartitionOutcome change(What what, const std::string& device = "") {
    MigCallbacks callbacks;
    callbacks.pause = [](Duration) { return true; };
    return change_partition(*admin, uuid, {{9, 3, {4, 4}}, what, device}, callbacks);
  }
  std::string layout() { return layout_text(*admin->read(uuid)); }
  std::unique_ptr<gpu::MigAdmin> admin;
  std::string uuid;
};

// Promise: mig/partitions: One instance is made at its place and destroyed, and no other instance changes.
TEST(MigPartition, IsMadeAtItsPlaceAndDestroyed) {
  Bed bed(", mig: [1g.5gb]");
  const auto before = bed.layout();
  const auto made = bed.change(What::kMake);
  ASSERT_TRUE(made.status) << to_string(made.status.error());
  EXPECT_THAT(made.uuid, HasSubstr("MIG-"));
  EXPECT_EQ(bed.layout(), before + ", 3g.20gb at 4");
  const auto found = bed.change(What::kFind, made.uuid);
  EXPECT_TRUE(found.status);
  EXPECT_EQ(found.uuid, made.uuid);
  EXPECT_EQ(bed.change(What::kFinish).uuid, made.uuid);
  EXPECT_TRUE(bed.change(What::kRemove, made.uuid).status);
  EXPECT_EQ(bed.layout(), before);
  EXPECT_TRUE(bed.change(What::kRemove, made.uuid).status) << "it is gone";
  EXPECT_EQ(bed.change(What::kFind, made.uuid).status.error().kind, Kind::kNotFound);
}

// Promise: mig/partitions: What another program made is neither taken nor destroyed.
TEST(MigPartition, LeavesInstancesOfOtherProgramsAlone) {
  Bed bed(", mig: [3g.20gb, 3g.20gb]");
  const auto before = bed.layout();
  const auto refused = bed.change(What::kMake);
  ASSERT_FALSE(refused.status);
  EXPECT_EQ(refused.status.error().kind, Kind::kConflict);
  EXPECT_THAT(refused.status.error().what, HasSubstr("3g.20gb at slices 4-7 that was not made for this claim"));
  EXPECT_EQ(bed.change(What::kFind, "MIG-0").status.error().kind, Kind::kConflict);
  EXPECT_TRUE(bed.change(What::kRemove, "MIG-0").status) << "the caller's is gone";
  EXPECT_EQ(bed.layout(), before);
}

TEST(MigPartition, IsNotFinishedInTheMiddleOfALargerOne) {
  Bed bed(", mig: [7g.40gb]");
  const auto refused = bed.change(What::kFinish);
  ASSERT_FALSE(refused.status);
  EXPECT_THAT(refused.status.error().what, HasSubstr("7g.40gb"));
  EXPECT_EQ(bed.layout(), "7g.40gb at 0");
}

// Promise: mig/partitions: An instance that a program uses is not destroyed, and the program is named.
TEST(MigPartition, InUseStays) {
  Bed bed;
  const auto made = bed.change(What::kMake);
  const auto instance = bed.admin->read(bed.uuid)->instances.at(0).id;
  bed.node().add_made_up_process({.pid = 5, .gpu = 0, .bytes = 1, .gpu_instance = instance, .compute_instance = 0});
  const auto refused = bed.change(What::kRemove, made.uuid);
  ASSERT_FALSE(refused.status);
  EXPECT_EQ(refused.status.error().kind, Kind::kConflict);
  EXPECT_THAT(refused.status.error().what, HasSubstr("in use by process 5"));
  EXPECT_EQ(bed.change(What::kFind, made.uuid).uuid, made.uuid);
  bed.node().detach(5, 0);
  EXPECT_TRUE(bed.change(What::kRemove, made.uuid).status);
}

TEST(MigPartition, NeverChangesTheMode) {
  Bed bed("");
  EXPECT_EQ(bed.change(What::kMake).status.error().kind, Kind::kUnavailable);
  EXPECT_TRUE(bed.change(What::kRemove).status);
  EXPECT_FALSE(bed.admin->read(bed.uuid)->enabled);
}

constexpr const char* kCalls[] = {"nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"};

// Promise: mig/partitions: A driver call that fails leaves nothing of the instance.
TEST(MigPartition, ACallThatFailsLeavesNothing) {
  constexpr std::uint32_t kUnknown = 999;
  for (const char* call : kCalls) {
    Bed bed;
    bed.fault(sim::FaultKind::kFail, call, kUnknown, 0, 2);
    EXPECT_TRUE(bed.change(What::kMake).status) << call << " fails twice";
    EXPECT_TRUE(bed.change(What::kRemove).status);
    bed.fault(sim::FaultKind::kFail, call, kUnknown, 0, 0);
    const auto failed = bed.change(What::kMake);
    ASSERT_FALSE(failed.status) << call;
    EXPECT_THAT(to_string(failed.status.error()), ::testing::AllOf(HasSubstr("3g.20gb"), HasSubstr("at slices 4-7")));
    EXPECT_EQ(failed.uuid, "");
    EXPECT_EQ(bed.admin->read(bed.uuid)->instances.size(), 0u) << call;
  }
}

// Promise: mig/partitions: A program that is killed between two driver calls is gone on with, to either side.
TEST(MigPartition, IsGoneOnWithAfterAKill) {
  for (const auto& [call, kind] : {std::pair{kCalls[0], sim::FaultKind::kKill},
                                   {kCalls[0], sim::FaultKind::kKillAfter},
                                   {kCalls[1], sim::FaultKind::kKill},
                                   {kCalls[1], sim::FaultKind::kKillAfter}}) {
    for (const bool removes : {false, true}) {
      SCOPED_TRACE(call);
      Bed bed;
      bed.fault(kind, call, 0, 0, 1);
      if (const pid_t child = ::fork(); child == 0) {
        bed.change(What::kMake);
        ::_exit(0);
      } else {
        int status = 0;
        ::waitpid(child, &status, 0);
      }
      if (removes) {
        EXPECT_TRUE(bed.change(What::kRemove).status);
        EXPECT_TRUE(bed.admin->read(bed.uuid)->instances.empty());
      } else {
        const auto finished = bed.change(What::kFinish);
        EXPECT_TRUE(finished.status) << to_string(finished.status.error());
        EXPECT_EQ(bed.layout(), "3g.20gb at 4");
      }
    }
  }
}

}  // namespace partition_test
}  // namespace tranche::mig
