#include "grants/live/tenant_words.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using What = kube::PodChange::What;

kube::PodChanges news(What what, const std::string& threads, const std::string& uid = "u1") {
  kube::PodSeen pod;
  pod.pod_namespace = "team";
  pod.name = "train";
  pod.uid = uid;
  if (!threads.empty()) pod.mps_words = {{"main", threads, std::nullopt}};
  return {{what, pod}};
}

std::vector<Holder> held(std::uint32_t percent) {
  const auto device = [&](const char* uuid) {
    return allocate::GrantLimit{uuid, 5, {mib(4096), Percent::whole(percent), 32}};
  };
  return {{"team", "train", "main", "nvidia.com/gpu0", {}, {device("GPU-0")}, "g0"},
          {"team", "train", "main", "nvidia.com/gpu1", {}, {device("GPU-1")}, "g1"}};
}

TEST(TenantWordsOfPods, AreToldOnceAndOnlyOfContainersThatHoldAGrant) {
  TenantWords words;
  words.pods(news(What::kNew, "many"));
  EXPECT_THAT(words.look({}), IsEmpty());
  const auto told = words.look(held(25));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].container, "main");
  EXPECT_THAT(told[0].remark.message, HasSubstr("has the 25 % of its grant"));
  EXPECT_THAT(words.look(held(25)), IsEmpty());
  words.pods(news(What::kChanged, "many"));
  EXPECT_THAT(words.look(held(25)), IsEmpty());
}

TEST(TenantWordsOfPods, MoreThanTheGrantIsToldAndLessIsNot) {
  TenantWords words;
  words.pods(news(What::kNew, "30"));
  EXPECT_THAT(words.look(held(30)), IsEmpty());
  ASSERT_THAT(words.look(held(25)), SizeIs(1));
}

TEST(TenantWordsOfPods, TheNextPodOfThatNameIsAnother) {
  TenantWords words;
  words.pods(news(What::kNew, "many"));
  EXPECT_THAT(words.look(held(25)), SizeIs(1));
  words.pods(news(What::kGone, "many"));
  EXPECT_THAT(words.look(held(25)), IsEmpty());
  words.pods(news(What::kNew, "many", "u2"));
  EXPECT_THAT(words.look(held(25)), SizeIs(1));
}

}  // namespace
}  // namespace tranche::agent
