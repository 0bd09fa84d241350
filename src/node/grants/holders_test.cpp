#include <gmock/gmock.h>

#include "node/grants/holders_fixture.h"

namespace tranche::node {
namespace holders_test {

using fixture::kSlots;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Snapshot held_by_a_pod() {
  return fixture::held_by_a_pod("default", "a");
}

TEST(Holders, HaveTheLimitsOfThePlanWhileNothingElseIsKnown) {
  const auto all = holders(held_by_a_pod(), {});
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].grant, grants::grant_id(kSlots));
  EXPECT_EQ(all[0].devices[0].limits.memory, mib(20000));
  EXPECT_EQ(all[0].devices[0].slots, 2u);
}

TEST(Holders, KeepTheirLimitsUnderAChangedConfigurationAndName) {
  auto snapshot = held_by_a_pod();
  snapshot.shares.own()[{grants::grant_id(kSlots), "GPU-0"}] = {"gpu-0", "nvidia.com/gpu", mib(5000),
                                                                Percent::whole(50)};
  EXPECT_EQ(holders(snapshot, {}).at(0).devices[0].limits.memory, mib(5000));
  EXPECT_EQ(holders(snapshot, {}).at(0).devices[0].limits.sms, 66u);
  snapshot.plan.resources[0].name = "nvidia.com/gpu.shared";
  const auto all = holders(snapshot, {});
  ASSERT_THAT(all, SizeIs(1)) << "its pod runs on";
  EXPECT_EQ(all[0].resource, "nvidia.com/gpu");
  EXPECT_EQ(all[0].devices[0].limits.memory, mib(5000));
}

TEST(Holders, OfWhatIsNotOursAreLeftOut) {
  auto snapshot = held_by_a_pod();
  snapshot.holdings = {{"default", "a", "main", "example.com/fpga", kSlots}};
  EXPECT_THAT(holders(snapshot, {}), IsEmpty());
}

// Promise: guard: Requests of claims are tenants of their own, whatever claims, requests and pods are named.
TEST(Holders, RequestsOfClaimsAreTenantsOfTheirOwnWhateverTheyAreNamed) {
  Snapshot snapshot;
  snapshot.holdings = {{"default", "train-0", "gpu", "nvidia.com/gpu", kSlots}};
  snapshot.shares.own()[{grants::grant_id(kSlots), "GPU-0"}] = {"gpu-0", "nvidia.com/gpu", mib(5000),
                                                                Percent::whole(50)};
  auto& claims = snapshot.claims.emplace();
  claims.driver = "gpu.tranche.io";
  const auto add = [&](const std::string& uid, const std::string& name, const std::string& pod) {
    dra::Part part;
    part.request = "gpu";
    part.gpu_uuid = "GPU-0";
    part.grant = "grant-" + uid;
    claims.prepared[uid] = {{"default", name, uid}, pod, {part}};
  };
  add("u1", "train-0-gpu-x7k2p", "train-0");
  add("u2", "train-0-gpu-b8w4n", "train-0");  // another container's
  add("u3", "train-0", "");                   // by hand, named as the pod
  std::set<std::string> keys;
  std::vector<std::string> pods;
  for (const auto& holder : holders(snapshot, {})) {
    keys.insert(tenant_key(holder));
    pods.push_back(holder.pod);
  }
  EXPECT_THAT(keys, SizeIs(4));
  EXPECT_THAT(pods, ElementsAre("train-0", "train-0", "train-0", "claim:train-0"));
}

TEST(Holders, ARequestWithSeveralGpusIsOneTenantWithALimitOnEach) {
  Snapshot snapshot;
  auto& claims = snapshot.claims.emplace();
  dra::Part first, second;
  first.request = second.request = "gpu";
  first.grant = second.grant = "both";
  first.gpu_uuid = "GPU-0";
  second.gpu_uuid = "GPU-1";
  second.limits.memory = mib(100);
  claims.prepared["u1"] = {{"default", "two", "u1"}, "p", {first, second}};
  const auto all = holders(snapshot, {});
  ASSERT_THAT(all, SizeIs(1));
  ASSERT_THAT(all[0].devices, SizeIs(2));
  EXPECT_EQ(all[0].devices[1].uuid, "GPU-1");
  EXPECT_EQ(all[0].devices[1].limits.memory, mib(100));
}

kube::PodSeen pod(const std::string& name) {
  kube::PodSeen seen;
  seen.pod_namespace = "default";
  seen.name = name;
  seen.uid = "uid-" + name;
  seen.phase = "Running";
  seen.containers = {{"init", "containerd://i"}, {"main", "containerd://m"}};
  return seen;
}

// Promise: api-server/pods: Grants carry kubelet's names and the cluster's ids.
TEST(Holders, HaveKubeletsNamesAndTheClustersIds) {
  kube::PodTable pods;
  auto going = pod("a");
  going.deleting = true;
  pods.replace({going});
  const auto all = holders(held_by_a_pod(), pods);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].pod_uid, "uid-a");
  EXPECT_EQ(all[0].container_id, "containerd://m");
  EXPECT_TRUE(all[0].deleting);
}

TEST(Holders, AreKnownByNameAloneWithoutTheCluster) {
  const auto all = holders(held_by_a_pod(), {});
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].pod, "a");
  EXPECT_EQ(all[0].pod_uid, "");
}

}  // namespace holders_test
}  // namespace tranche::node
