// Kubelet comes late, restarts, asks wrongly; and what a pod gets works.
#include <csignal>
#include <filesystem>

#include "contract/direct_client.h"
#include "node/bed.h"

namespace tranche::e2e {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

using NodeKubelet = NodeBed;
using NodeGrant = NodeBed;

constexpr std::uint64_t kMiB = 1 << 20;

TEST_F(NodeKubelet, OneThatComesLaterIsRegisteredWithWhenItComes) {
  make_node(1);
  write("config.yaml", sharing("mps", 4));
  start_mps();
  Program& node = start_node();
  const auto alone = until_node(
      [](const Json& status) { return !status["resources"].empty() && status["resources"][0]["healthy"] == 4; });
  EXPECT_EQ(alone["resources"][0]["registered"], false);
  EXPECT_THAT(alone["resources"][0]["problem"].get<std::string>(), HasSubstr("kubelet.sock"));
  start_kubelet();  // wipes every socket in the directory, ours too
  ASSERT_TRUE(until_healthy(4));
  const auto status = until_node([](const Json& s) { return s["resources"][0]["registered"] == true; });
  EXPECT_EQ(status["pid"], node.pid());
}

TEST_F(NodeKubelet, OneThatEndsEveryStreamIsReportedUntilOneStays) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 4));
  start_kubelet();
  kubelet().end_next_streams(1'000'000);
  Program& node = start_node();
  const auto failing = until_node(
      [](const Json& s) { return !s["resources"].empty() && !s["resources"][0].value("problem", "").empty(); });
  EXPECT_EQ(failing["resources"][0]["registered"], false);
  EXPECT_EQ(failing["ready"], false);
  EXPECT_THAT(failing["readyReason"].get<std::string>(), HasSubstr("ended its stream (the list has 4 slots in "));
  EXPECT_TRUE(until_says(node, "plugin.problem"));
  kubelet().end_next_streams(0);
  const auto kept = until_node([](const Json& s) { return s["resources"][0]["registered"] == true; });
  EXPECT_EQ(kept["ready"], true);
  EXPECT_EQ(kept["resources"][0]["problem"], "");
}

TEST_F(NodeKubelet, AListThatIsTooLongForItIsRefusedAndTheLastGoodOneStays) {
  make_node(2);
  write("config.yaml", sharing("timeSlicing", 4));
  start_kubelet();
  start_node();
  ASSERT_TRUE(until_healthy(8));
  write("config.yaml", sharing("timeSlicing", 40000));
  const auto refused = until_node([](const Json& s) { return !s["planProblems"].empty(); });
  EXPECT_THAT(refused["planProblems"][0].get<std::string>(), HasSubstr("makes 80000 slots of nvidia.com/gpu, "));
  EXPECT_EQ(refused["ready"], false);
  EXPECT_EQ(refused["resources"][0]["slots"], 8);
  write("config.yaml", sharing("timeSlicing", 5));
  EXPECT_TRUE(until_healthy(10));
}

// Promise: kubelet/register: A missing plugin directory fails at once and is named.
TEST_F(NodeKubelet, OneWithoutAPluginDirectoryIsNamedWithTheFlagThatNamesIt) {
  make_node(1);
  write("config.yaml", sharing("mps", 4));
  fs::remove(in("plugins"));
  Program& node = start_node();
  EXPECT_EQ(finish(node), 1);
  EXPECT_THAT(node.err(), HasSubstr("--plugin-dir"));
  EXPECT_THAT(node.err(), HasSubstr(in("plugins")));
}

TEST_F(NodeKubelet, ARestartedOneIsRegisteredWithAgainAndReplaysTheSameGrants) {
  start_all(2, 10);
  const auto grant = admitted(kubelet(), "a", 3);
  Program& tenant = start_cuda(grant, {"--hold"});
  ASSERT_EQ(attached(tenant)["event"], "attached");
  const auto number = kubelet().registrations().back().number;
  ASSERT_TRUE(kubelet().restart());
  ASSERT_TRUE(kubelet().wait_for_registration(kGpu, kSoon, number));
  ASSERT_TRUE(until_healthy(20));
  const auto replayed = kubelet().start_container("default/a", "main");
  ASSERT_TRUE(replayed) << to_string(replayed.error());
  EXPECT_EQ(*replayed, grant);
  EXPECT_TRUE(fs::exists(endpoint_of(grant) + "/control"));
  EXPECT_EQ(attached(start_cuda(*replayed, {}))["event"], "attached");
  EXPECT_TRUE(tenant.running());
}

TEST_F(NodeKubelet, IdsThatCannotBeGrantedAreRefusedWithASentence) {
  start_all(2, 2);
  contract::DirectClient client(plugin_socket());
  const auto unknown = client.allocate({"GPU-00000000-0000-0000-0000-000000000000::0"});
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr("has no device \"GPU-00000000-0000-0000-0000-000000000000::0\""));
  EXPECT_EQ(client.allocate({slot(0, 2)}).error_code(), grpc::StatusCode::NOT_FOUND) << "one beyond the last";
  const auto twice = client.allocate({slot(0, 1), slot(0, 1)});
  EXPECT_EQ(twice.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(twice.error_message(), HasSubstr("is asked for twice"));
  const auto across = client.allocate({slot(0, 0), slot(1, 0)});
  EXPECT_FALSE(across.ok());
  EXPECT_THAT(across.error_message(), HasSubstr("ask for at most 2 a container"));

  sim_node({"gpu", "1", "xid", "79"});
  ASSERT_TRUE(until_healthy_of(4, 2));
  const auto unhealthy = client.allocate({slot(1, 0)});
  EXPECT_EQ(unhealthy.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(unhealthy.error_message(), HasSubstr("is unhealthy: "));
  EXPECT_TRUE(client.allocate({slot(0, 0)}).ok()) << "the other GPU's";

  // Counts reach the document a moment after the answers, together or not.
  const auto status = until_node(
      [](const Json& s) { return s["resources"][0]["refused"] == 5 && s["resources"][0]["allocations"] == 1; });
  EXPECT_EQ(status["resources"][0]["refused"], 5);
  EXPECT_EQ(status["resources"][0]["allocations"], 1);
}

TEST_F(NodeGrant, OfOneSlotLimitsMemoryAndSmsOfTheContainersProcess) {
  start_all(2, 10);
  const auto grant = admitted(kubelet(), "one", 1);
  EXPECT_EQ(endpoint_of(grant).substr(0, in("mps").size()), in("mps"));
  const auto line = attached(start_cuda(grant, {}));
  EXPECT_EQ(line["mps"], true) << line;
  EXPECT_EQ(line["limit"], 14377 * kMiB);
  EXPECT_EQ(line["sms"], 12);
  EXPECT_EQ(line["gpu"], grant.envs.at("NVIDIA_VISIBLE_DEVICES"));
  EXPECT_EQ(finish(start_cuda(grant, {"--allocate", "13GiB"})), 0);
  Program& greedy = start_cuda(grant, {"--allocate", "15GiB"});
  EXPECT_EQ(finish(greedy), 12) << "out of memory";
  EXPECT_THAT(greedy.out(), HasSubstr("MEMORY"));
}

TEST_F(NodeGrant, OfSeveralSlotsIsTheirSumOnOneGpu) {
  start_all(2, 10);
  const auto grant = admitted(kubelet(), "three", 3);
  EXPECT_EQ(grant.slots.at(kGpu).size(), 3u);
  const auto line = attached(start_cuda(grant, {}));
  EXPECT_EQ(line["mps"], true) << line;
  EXPECT_EQ(line["limit"], 43131 * kMiB);
  EXPECT_EQ(line["sms"], 62) << "30 % of 132 are 38 SMs, rounded up to a trusted count (docs/guide/share-sizes.md)";
  EXPECT_EQ(finish(start_cuda(grant, {"--allocate", "40GiB"})), 0);
  EXPECT_EQ(finish(start_cuda(grant, {"--allocate", "43GiB"})), 12);
  const auto other = admitted(kubelet(), "eight", 8);
  EXPECT_NE(other.envs.at("NVIDIA_VISIBLE_DEVICES"), grant.envs.at("NVIDIA_VISIBLE_DEVICES"));
  EXPECT_NE(endpoint_of(other), endpoint_of(grant));
}

TEST_F(NodeGrant, UnderTimeSlicingNeedsNoMps) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 3));
  start_kubelet();
  start_node();
  ASSERT_TRUE(until_healthy(3));
  const auto grant = admitted(kubelet(), "sliced", 1);
  EXPECT_EQ(endpoint_of(grant), "");
  const auto line = attached(start_cuda(grant, {}));
  EXPECT_EQ(line["mps"], false) << line;
  EXPECT_EQ(line["limit"], nullptr);
  EXPECT_EQ(line["gpu"], uuid(0));
}

}  // namespace
}  // namespace tranche::e2e
