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

// What is refused, and with which words: tests/contract.
TEST_F(NodeKubelet, AllocationsAndRefusalsAreCountedInTheStatus) {
  start_all(1, 2);
  contract::DirectClient client(plugin_socket());
  EXPECT_EQ(client.allocate({slot(0, 2)}).error_code(), grpc::StatusCode::NOT_FOUND) << "one beyond the last";
  EXPECT_TRUE(client.allocate({slot(0, 0)}).ok());
  // Counts reach the document a moment after the answers, together or not.
  until_node([](const Json& s) { return s["resources"][0]["refused"] == 1 && s["resources"][0]["allocations"] == 1; });
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

}  // namespace
}  // namespace tranche::e2e
