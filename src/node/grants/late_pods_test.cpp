#include "node/grants/holders.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace late_pods_test {

using ::testing::IsEmpty;
using Holdings = std::vector<kubelet::PodHolding>;

kube::PodSeen pod(const std::string& name, const std::string& uid, const std::string& phase = "Running") {
  kube::PodSeen seen;
  seen.pod_namespace = "team";
  seen.name = name;
  seen.uid = uid;
  seen.phase = phase;
  return seen;
}

kubelet::PodHolding holding(const std::string& name, const std::string& slot) {
  return {"team", name, "main", "nvidia.com/gpu", {slot}};
}

std::vector<std::string> names(const Holdings& holdings) {
  std::vector<std::string> found;
  for (const auto& one : holdings) found.push_back(one.pod + " " + one.slots.front());
  return found;
}

class LatePodsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pods_.replace({pod("a", "1"), pod("b", "2")});
    Holdings listed = before_;
    EXPECT_FALSE(late_.complete(listed, {}, pods_));
    EXPECT_EQ(names(listed), names(before_));
  }
  // What is held after kubelet answered `listed`.
  std::vector<std::string> after(Holdings listed, bool expected_late) {
    EXPECT_EQ(late_.complete(listed, before_, pods_), expected_late);
    before_ = listed;
    return names(listed);
  }

  kube::PodTable pods_;
  Holdings before_{holding("a", "s0"), holding("b", "s1")};
  LatePods late_;
};

// Promise: kubelet/pod-resources: A running pod that kubelet does not list yet after its start holds what it held.
TEST_F(LatePodsTest, HoldWhatTheyHeldUntilKubeletListsThem) {
  EXPECT_THAT(after({}, true), ::testing::ElementsAre("a s0", "b s1"));
  EXPECT_THAT(after({holding("b", "s1")}, true), ::testing::UnorderedElementsAre("a s0", "b s1"));
  EXPECT_THAT(after({holding("a", "s0"), holding("b", "s1")}, false), ::testing::ElementsAre("a s0", "b s1"));
}

TEST_F(LatePodsTest, HoldNothingOnceTheyAreOverOrGone) {
  pods_.replace({pod("a", "1", "Succeeded")});
  EXPECT_THAT(after({}, false), IsEmpty());
}

TEST_F(LatePodsTest, AnotherPodOfTheSameNameHasNothingOfTheFormer) {
  pods_.replace({pod("a", "9"), pod("b", "2")});
  EXPECT_THAT(after({}, true), ::testing::ElementsAre("b s1"));
  pods_.replace({pod("a", "9"), pod("b", "2")});
  EXPECT_THAT(after({}, true), ::testing::ElementsAre("b s1"));
}

TEST_F(LatePodsTest, SlotsThatKubeletGaveToAnotherAreTheirsNoLonger) {
  EXPECT_THAT(after({holding("c", "s0")}, true), ::testing::UnorderedElementsAre("c s0", "b s1"));
}

TEST_F(LatePodsTest, APodThatKubeletListsWithOtherSlotsHoldsThose) {
  EXPECT_THAT(after({holding("a", "s7"), holding("b", "s1")}, false), ::testing::ElementsAre("a s7", "b s1"));
}

}  // namespace late_pods_test
}  // namespace tranche::node
