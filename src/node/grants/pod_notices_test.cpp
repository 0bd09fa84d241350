#include "node/grants/tenants.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace pod_notices_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kGrant = "0011223344556677";

Holder holder(const std::string& pod, const std::string& grant = kGrant) {
  return {"default", pod, "main", "nvidia.com/gpu", {}, {}, grant};
}
auto refused(const std::string& pod, const std::string& why) {
  return AllOf(Field(&PodNotice::holder, AllOf(Field(&Holder::pod, pod), Field(&Holder::grant, kGrant))),
               Field(&PodNotice::message, "MPS refused a process: " + why));
}

mps::PoolReports reports(std::uint64_t times, const std::string& why = "zz lifts it", bool has_endpoint = true) {
  mps::PoolReports reports{.connected = true, .problem = "", .pages_problem = "", .cpu_problem = "", .pools = {}};
  mps::PoolReport& pool = reports.pools["gpu-1"];
  if (has_endpoint) pool.endpoints = {{.grant = kGrant, .clients = {}, .refused_why = why, .limits_lifted = times}};
  return reports;
}

class RefusedProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    notices_.pools(reports(0, ""));
    held("a");
  }
  // A grant that is given again has no holder until kubelet names it.
  void given() {
    notices_.given(kGrant);
    holders_.clear();
  }
  std::vector<PodNotice> held(const std::string& pod) {
    holders_ = {holder(pod)};
    return notices_.look(holders_, {});
  }
  std::vector<PodNotice> after(const mps::PoolReports& reports) {
    notices_.pools(reports);
    return notices_.look(holders_, {});
  }
  PodNotices notices_;
  std::vector<Holder> holders_;
};

TEST_F(RefusedProcesses, AContainerHearsOnceOfEachValue) {
  EXPECT_THAT(after(reports(1)), ElementsAre(refused("a", "zz lifts it")));
  EXPECT_THAT(after(reports(1)), IsEmpty());
  EXPECT_THAT(after(reports(7)), IsEmpty()) << "it tries again";
  EXPECT_THAT(after(reports(8, "0=0 lifts it")), ElementsAre(refused("a", "0=0 lifts it")));
}

TEST_F(RefusedProcesses, WhatIsRefusedForOtherReasonsIsNotReported) {
  EXPECT_THAT(after(reports(0, "its container is being stopped")), IsEmpty());
}

TEST_F(RefusedProcesses, TheNoticeWaitsForKubeletToNameTheHolderOfTheGrant) {
  given();
  EXPECT_THAT(after(reports(1)), IsEmpty()) << "not for the former holder";
  EXPECT_THAT(held("b"), ElementsAre(refused("b", "zz lifts it")));
}

TEST_F(RefusedProcesses, OfAFormerHoldersProcessesTheNextHearsNothing) {
  holders_.clear();
  EXPECT_THAT(after(reports(1)), IsEmpty());
  given();
  EXPECT_THAT(held("b"), IsEmpty());
}

TEST_F(RefusedProcesses, TheNextHolderGetsTheSameNoticeAgain) {
  EXPECT_THAT(after(reports(1)), SizeIs(1));
  held("b");
  EXPECT_THAT(after(reports(2)), ElementsAre(refused("b", "zz lifts it")));
}

TEST_F(RefusedProcesses, ARestartOfTrancheMpsCountsFromNothing) {
  EXPECT_THAT(after(reports(5)), SizeIs(1));
  EXPECT_THAT(after(reports(0, "")), IsEmpty());
  EXPECT_THAT(after(reports(1, "= lifts it")), ElementsAre(refused("a", "= lifts it")));
  EXPECT_THAT(after(mps::PoolReports{}), IsEmpty()) << "tranche mps does not answer";
  EXPECT_THAT(after(reports(1, "= lifts it")), IsEmpty()) << "the same as before";
}

TEST_F(RefusedProcesses, AnEndpointThatIsGoneIsForgotten) {
  holders_.clear();
  EXPECT_THAT(after(reports(1)), IsEmpty());
  EXPECT_THAT(after(reports(0, "", false)), IsEmpty());
  EXPECT_THAT(held("a"), IsEmpty());
}

TEST(RefusedProcessesAtTheStart, WhatHappenedBeforeWasReportedThen) {
  PodNotices notices;
  notices.pools(reports(3));
  EXPECT_THAT(notices.look({holder("a")}, {}), IsEmpty());
  notices.pools(reports(4));
  EXPECT_THAT(notices.look({holder("a")}, {}), SizeIs(1));
}

class SplitContainers : public ::testing::Test {
 protected:
  struct Held {
    std::string pod, container, pool, grant, claim = {};
  };
  std::vector<PodNotice> look(const std::vector<Held>& all) {
    std::vector<Holder> holders;
    for (const auto& held : all) {
      holders.push_back({"default", held.pod, held.container, "r", {}, {}, held.grant, held.claim});
      holders.back().pool = held.pool;
    }
    return notices_.look(holders, {});
  }
  PodNotices notices_;
};

TEST_F(SplitContainers, AreReportedOnceWithTheirPools) {
  const std::vector<Held> all{{"a", "main", "gpu-2", "g1"},
                              {"a", "main", "gpu-1", "g2"},
                              {"a", "side", "gpu-1", "g3"},
                              {"b", "main", "gpu-1", "g4"},
                              {"b", "main", "gpu-1", "g5"}};
  const auto reported = look(all);
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(holder_name(reported[0].holder), "default/a/main");
  EXPECT_THAT(reported[0].message, HasSubstr("holds slots of 2 MPS pools (gpu-1, gpu-2)"));
  EXPECT_THAT(look(all), IsEmpty());
}

TEST_F(SplitContainers, RequestsOfOneNameOfTwoClaimsAreNone) {
  EXPECT_THAT(look({{"a", "gpu", "gpu-1", "g1", "a-x"}, {"a", "gpu", "gpu-2", "g2", "a-y"}}), IsEmpty());
}

TEST_F(SplitContainers, AreReportedAgainWhenTheyHadGone) {
  const std::vector<Held> all{{"a", "main", "gpu-1", "g1"}, {"a", "main", "gpu-2", "g2"}};
  EXPECT_THAT(look(all), SizeIs(1));
  EXPECT_THAT(look({}), IsEmpty());
  EXPECT_THAT(look(all), SizeIs(1));
}

class LimitsOfPods : public ::testing::Test {
 protected:
  std::vector<PodNotice> pod(const std::string& threads, const std::string& uid = "u1") {
    kube::PodSeen pod;
    pod.pod_namespace = "team";
    pod.name = "train";
    pod.uid = uid;
    pod.mps_environments = {{"main", threads, std::nullopt}};
    pods_.replace({pod});
    return look();
  }
  std::vector<PodNotice> look() {
    for (auto& holder : holders_)
      if (const auto* pod = pods_.find(holder.pod_namespace, holder.pod)) holder.pod_uid = pod->uid;
    return notices_.look(holders_, pods_);
  }
  std::vector<PodNotice> held(std::uint32_t percent) {
    const auto device = [&](const char* uuid) {
      return grants::GrantLimit{uuid, 5, {mib(4096), Percent::whole(percent), 32}};
    };
    holders_ = {{"team", "train", "main", "nvidia.com/gpu0", {}, {device("GPU-0")}, "g0"},
                {"team", "train", "main", "nvidia.com/gpu1", {}, {device("GPU-1")}, "g1"}};
    return look();
  }
  PodNotices notices_;
  std::vector<Holder> holders_;
  kube::PodTable pods_;
};

TEST_F(LimitsOfPods, AreReportedOnceAndOnlyOfContainersThatHoldAGrant) {
  EXPECT_THAT(pod("many"), IsEmpty());
  const auto reported = held(25);
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_EQ(reported[0].holder.container, "main");
  EXPECT_EQ(reported[0].uid, "u1");
  EXPECT_THAT(reported[0].message, HasSubstr("has the 25 % of its grant"));
  EXPECT_THAT(held(25), IsEmpty());
  EXPECT_THAT(pod("many"), IsEmpty());
}

TEST_F(LimitsOfPods, MoreThanTheGrantIsReportedAndLessIsNot) {
  EXPECT_THAT(pod("30"), IsEmpty());
  EXPECT_THAT(held(30), IsEmpty());
  EXPECT_THAT(held(25), SizeIs(1));
}

TEST_F(LimitsOfPods, TheNextPodOfThatNameIsAnother) {
  held(25);
  EXPECT_THAT(pod("many"), SizeIs(1));
  pods_.replace({});
  EXPECT_THAT(held(25), IsEmpty());
  EXPECT_THAT(pod("many", "u2"), SizeIs(1));
}

}  // namespace pod_notices_test
}  // namespace tranche::node
