// A GPU's bad days, from the driver's event to kubelet's list.
#include "node/bed.h"

namespace tranche::e2e {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

using NodeHealth = NodeBed;

TEST_F(NodeHealth, AnXidMakesTheSlotsOfItsGpuUnhealthyWithinTwoSecondsAndAnApplicationsXidNone) {
  start_all(2, 3);
  const auto messages = kubelet().messages().size();
  sim_node({"gpu", "0", "xid", "31"});
  sim_node({"gpu", "1", "xid", "79"});
  const auto told = kubelet().wait_for_healthy(kGpu, 3, 2s);
  EXPECT_TRUE(told) << to_string(told.error());
  ASSERT_TRUE(until_list_says(messages, 1, false));
  EXPECT_TRUE(never_unhealthy(messages, 0)) << "events come in order, so the one of before was seen as well";
  const auto status = until_node([](const Json& s) { return device_of(s, 1)["healthy"] == false; });
  EXPECT_THAT(device_of(status, 1)["reason"].get<std::string>(), HasSubstr("79"));
  EXPECT_EQ(device_of(status, 0)["healthy"], true);
  EXPECT_TRUE(until_says(*program("node"), "\"xid\":31,\"class\":\"application\""));
}

TEST_F(NodeHealth, ALostGpusSlotsAreUnhealthyUntilItIsBack) {
  start_all(2, 3);
  const auto messages = kubelet().messages().size();
  sim_node({"gpu", "1", "lost"});
  ASSERT_TRUE(until_list_says(messages, 1, false));
  const auto lost = until_node([](const Json& s) { return device_of(s, 1)["healthy"] == false; });
  EXPECT_EQ(lost["resources"][0]["slots"], 6) << "ids stay";
  sim_node({"gpu", "1", "back"});
  ASSERT_TRUE(until_healthy(6));
  EXPECT_TRUE(never_unhealthy(messages, 0));
}

}  // namespace
}  // namespace tranche::e2e
