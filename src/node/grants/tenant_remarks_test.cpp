#include "node/grants/tenant_remarks.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using What = kube::PodChange::What;

kube::PodChanges pod_change(What what, const std::string& threads, const std::string& uid = "u1") {
  kube::PodSeen pod;
  pod.pod_namespace = "team";
  pod.name = "train";
  pod.uid = uid;
  if (!threads.empty()) pod.mps_environments = {{"main", threads, std::nullopt}};
  return {{what, pod}};
}

std::vector<Holder> held(std::uint32_t percent) {
  const auto device = [&](const char* uuid) {
    return allocate::GrantLimit{uuid, 5, {mib(4096), Percent::whole(percent), 32}};
  };
  return {{"team", "train", "main", "nvidia.com/gpu0", {}, {device("GPU-0")}, "g0"},
          {"team", "train", "main", "nvidia.com/gpu1", {}, {device("GPU-1")}, "g1"}};
}

TEST(TenantRemarksOnPods, AreReportedOnceAndOnlyOfContainersThatHoldAGrant) {
  TenantRemarks remarks;
  remarks.pods(pod_change(What::kNew, "many"));
  EXPECT_THAT(remarks.look({}), IsEmpty());
  const auto reported = remarks.look(held(25));
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].container, "main");
  EXPECT_THAT(reported[0].remark.message, HasSubstr("has the 25 % of its grant"));
  EXPECT_THAT(remarks.look(held(25)), IsEmpty());
  remarks.pods(pod_change(What::kChanged, "many"));
  EXPECT_THAT(remarks.look(held(25)), IsEmpty());
}

TEST(TenantRemarksOnPods, MoreThanTheGrantIsReportedAndLessIsNot) {
  TenantRemarks remarks;
  remarks.pods(pod_change(What::kNew, "30"));
  EXPECT_THAT(remarks.look(held(30)), IsEmpty());
  ASSERT_THAT(remarks.look(held(25)), SizeIs(1));
}

TEST(TenantRemarksOnPods, TheNextPodOfThatNameIsAnother) {
  TenantRemarks remarks;
  remarks.pods(pod_change(What::kNew, "many"));
  EXPECT_THAT(remarks.look(held(25)), SizeIs(1));
  remarks.pods(pod_change(What::kGone, "many"));
  EXPECT_THAT(remarks.look(held(25)), IsEmpty());
  remarks.pods(pod_change(What::kNew, "many", "u2"));
  EXPECT_THAT(remarks.look(held(25)), SizeIs(1));
}

}  // namespace
}  // namespace tranche::agent
