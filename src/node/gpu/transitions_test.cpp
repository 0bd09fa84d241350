#include "node/gpu/gpu_health.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace transitions_test {

using std::chrono::minutes;
using testing::IsEmpty;
using testing::SizeIs;
constexpr MonoTime kStart{};

plan::Plan plan_of_mig_and_pool() {
  plan::Plan plan;
  auto& resource = plan.resources.emplace_back();
  for (const auto& [uuid, gpu, pool] :
       {std::tuple{"MIG-1", "GPU-b", ""}, {"MIG-2", "GPU-b", ""}, {"GPU-a", "GPU-a", "p"}}) {
    auto& device = resource.devices.emplace_back();
    device.uuid = uuid;
    device.gpu_uuid = gpu;
    device.pool = pool;
  }
  return plan;
}

TEST(Conditions, ADevicesOwnFaultGoesBeforeItsGpusAndThatBeforeItsPools) {
  const gpu::Unhealthy own{gpu::Cause::kXid, "own"}, gpus{gpu::Cause::kLost, "gpu"};
  const auto devices = plan_of_mig_and_pool().resources[0].devices;
  const plan::Faults faults{{{"MIG-1", own}, {"GPU-b", gpus}}, {{"p", "starting"}}};
  EXPECT_EQ(fault_of(devices[0], faults), own);
  EXPECT_EQ(fault_of(devices[1], faults), gpus);
  EXPECT_EQ(fault_of(devices[2], faults), (gpu::Unhealthy{gpu::Cause::kPool, "starting"}));
  for (const auto& device : devices) EXPECT_FALSE(fault_of(device, {})) << device.uuid;
}

TEST(Transitions, ReportsBothTransitionsAndHowLongItLasted) {
  HealthReport report;
  EXPECT_THAT(report.update({{"GPU-a", std::nullopt}}, kStart), IsEmpty());
  const gpu::Unhealthy lost{gpu::Cause::kLost, "lost"};
  const auto fell = report.update({{"GPU-a", lost}}, kStart + minutes(1));
  ASSERT_THAT(fell, SizeIs(1));
  EXPECT_EQ(fell[0].what, ConditionChange::What::kFell);
  EXPECT_EQ(fell[0].condition, lost);
  EXPECT_THAT(report.update({{"GPU-a", lost}}, kStart + minutes(2)), IsEmpty()) << "transitions, not ticks";
  EXPECT_EQ(report.unhealthy.at("GPU-a").since, kStart + minutes(1));
  const auto recovered = report.update({{"GPU-a", std::nullopt}}, kStart + minutes(8));
  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_EQ(recovered[0].what, ConditionChange::What::kRecovered);
  EXPECT_EQ(recovered[0].lasted, minutes(7));
  EXPECT_EQ(recovered[0].condition, lost);
  EXPECT_EQ(report.falls.at(gpu::Cause::kLost), 1u);
  EXPECT_TRUE(report.unhealthy.empty());
}

TEST(Transitions, AnotherCauseIsReportedAndAnotherTextIsNot) {
  HealthReport report;
  report.update({{"GPU-a", gpu::Unhealthy{gpu::Cause::kXid, "XID 79"}}}, kStart);
  EXPECT_THAT(report.update({{"GPU-a", gpu::Unhealthy{gpu::Cause::kXid, "XID 54"}}}, kStart + minutes(1)), IsEmpty());
  EXPECT_EQ(report.unhealthy.at("GPU-a").what.why, "XID 54");
  const auto changes = report.update({{"GPU-a", gpu::Unhealthy{gpu::Cause::kLost, "lost"}}}, kStart + minutes(2));
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].what, ConditionChange::What::kOtherCause);
  EXPECT_EQ(changes[0].lasted, minutes(2));
  EXPECT_EQ(report.unhealthy.at("GPU-a").since, kStart) << "unhealthy all the while";
  EXPECT_FALSE(report.falls.contains(gpu::Cause::kLost)) << "it did not become unhealthy, it was";
}

TEST(Transitions, ADeviceThatIsNoLongerPlannedIsForgotten) {
  HealthReport report;
  report.update({{"MIG-1", gpu::Unhealthy{gpu::Cause::kXid, "XID 79"}}}, kStart);
  EXPECT_THAT(report.update({}, kStart + minutes(1)), IsEmpty());
  EXPECT_TRUE(report.unhealthy.empty());
}

}  // namespace transitions_test
}  // namespace tranche::node
