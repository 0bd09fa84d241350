// The parts of the kubelet stand-in that are plain values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "standins/kubelet/device_ledger.h"
#include "standins/kubelet/resource_name.h"

namespace tranche::sim {
namespace {

using testing::ElementsAre;

TEST(ResourceName, IsADomainAndAName) {
  for (const char* good : {"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.18gb", "a/b"}) {
    EXPECT_TRUE(is_extended_resource(good)) << good;
  }
  for (const char* bad : {"", "gpu", "cpu", "nvidia.com/", "/gpu", "nvidia.com/gpu/0", "Nvidia.com/gpu",
                          "kubernetes.io/gpu", "requests.nvidia.com/gpu", "nvidia.com/-gpu", "nvidia..com/gpu"}) {
    EXPECT_FALSE(is_extended_resource(bad)) << bad;
  }
  EXPECT_FALSE(is_extended_resource("nvidia.com/" + std::string(64, 'a')));
}

TEST(Choice, TakesPreferredIdsFirstAndEachOnce) {
  EXPECT_THAT(choose({"a", "b", "c"}, {"c", "c", "zz"}, 2), ElementsAre("c", "a"));
  EXPECT_THAT(choose({"a", "b", "c"}, {"a", "b", "c"}, 2), ElementsAre("a", "b"));
  EXPECT_THAT(choose({"a", "b"}, {}, 2), ElementsAre("a", "b"));
}

TEST(DeviceLedger, RefusesAChangedRequest) {
  DeviceLedger ledger;
  ledger.set_devices("r/r", {{.id = "a", .healthy = true}, {.id = "b", .healthy = true}});
  ledger.record({.pod_uid = "p", .container = "c", .resource = "r/r", .ids = {"a"}, .response = {}});
  EXPECT_FALSE(ledger.available_for("p", "c", "r/r", 2, false));
  const auto same = ledger.available_for("p", "c", "r/r", 1, false);
  ASSERT_TRUE(same);
  EXPECT_FALSE(same->has_value());
}

TEST(DeviceLedger, RefusesAHeldDeviceThatIsUnhealthyUnlessTheContainerRuns) {
  DeviceLedger ledger;
  ledger.set_devices("r/r", {{.id = "a", .healthy = false}, {.id = "b", .healthy = true}});
  ledger.record({.pod_uid = "p", .container = "c", .resource = "r/r", .ids = {"a"}, .response = {}});
  EXPECT_FALSE(ledger.available_for("p", "c", "r/r", 1, false));
  EXPECT_TRUE(ledger.available_for("p", "c", "r/r", 1, true));
}

}  // namespace
}  // namespace tranche::sim
