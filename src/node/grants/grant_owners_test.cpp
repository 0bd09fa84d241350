#include <gmock/gmock.h>

#include "node/grants/holders.h"

namespace tranche::node {
namespace grant_owners_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

kube::PodSeen pod(const std::string& name) {
  kube::PodSeen seen;
  seen.pod_namespace = "team";
  seen.name = name;
  seen.uid = "uid-" + name;
  seen.phase = "Running";
  seen.containers = {{"init", "containerd://i"}, {"main", "containerd://m"}};
  return seen;
}

Holder holder(const std::string& name, const std::string& grant) {
  return {"team", name, "main", "nvidia.com/gpu", {"GPU-1::0"}, {}, grant};
}

// Promise: api-server/pods: Grants carry kubelet's names and the cluster's ids.
TEST(GrantOwners, HaveKubeletsNamesAndTheClustersIds) {
  kube::PodTable pods;
  auto going = pod("a");
  going.deleting = true;
  pods.replace({going});
  const auto owners = grant_owners({holder("a", "aa")}, pods);
  ASSERT_EQ(owners.size(), 1u);
  EXPECT_EQ(owners[0].uid, "uid-a");
  EXPECT_EQ(owners[0].container_id, "containerd://m");
  EXPECT_TRUE(owners[0].deleting);
}

TEST(GrantOwners, AreKnownByNameAloneWithoutTheClusterAndOnesWithoutAnEndpointAreLeftOut) {
  const auto owners = grant_owners({holder("b", "bb"), holder("c", ""), holder("a", "aa")}, kube::PodTable{});
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(owners[0].pod, "a");
  EXPECT_EQ(owners[0].uid, "");
}

TEST(GrantOwners, KubeletIsBehindWhileItListsAPodThatIsOverOrGone) {
  kube::PodTable pods;
  pods.replace({pod("a")});
  const std::vector<kubelet::PodHolding> a{{"team", "a", "main", "r", {"s"}}}, b{{"team", "b", "main", "r", {"s"}}};
  EXPECT_FALSE(lists_ended_pods(a, pods));
  EXPECT_TRUE(lists_ended_pods(b, pods));
  auto over = pod("a");
  over.phase = "Succeeded";
  pods.replace({over});
  EXPECT_TRUE(lists_ended_pods(a, pods));
}

}  // namespace grant_owners_test
}  // namespace tranche::node
