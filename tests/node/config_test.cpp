// Configuration, as the real programs meet it.
#include <csignal>
#include <filesystem>

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

using NodeConfiguration = NodeBed;

bool problems_of(const Json& status) {
  return !status["config"]["problems"].empty();
}

TEST_F(NodeConfiguration, AnUnusableOneEndsEveryProgramWithStatusTwoAndReportsTheLineAndColumnOfEveryProblem) {
  make_node(1);
  write("config.yaml",
        "version: v1\nflags:\n  migStrategy: wrong\nsharing:\n  mps:\n    resources:\n    - name: "
        "nvidia.com/gpu\n      replicas: 0\n");
  for (const char* command : {"node", "mps", "plan"}) {
    Program& program = start_tranche(command);
    EXPECT_EQ(finish(program), 2) << command;
    EXPECT_EQ(program.out(), "") << command;
    EXPECT_THAT(program.err(), HasSubstr(in("config.yaml") + ":3:16: error: flags.migStrategy: ")) << command;
    EXPECT_THAT(program.err(), HasSubstr(in("config.yaml") + ":8:17: error: sharing.mps.resources[0].replicas: "))
        << command;
  }
  EXPECT_FALSE(fs::exists(mps_socket()));
  EXPECT_FALSE(fs::exists(node_socket()));
}

TEST_F(NodeConfiguration, AFileThatIsNotThereEndsEveryProgramWithStatusTwo) {
  make_node(1);
  for (const char* command : {"node", "mps", "plan"}) {
    Program& program = start_tranche(command);
    EXPECT_EQ(finish(program), 2) << command;
    EXPECT_THAT(program.err(), HasSubstr(in("config.yaml"))) << command;
  }
}

// Promise: config: An edited file applies at once, a broken one never.
TEST_F(NodeConfiguration, AnEditedFileIsInForceAtOnceABrokenOneNeverAndAMendedOneAgain) {
  start_all(2, 10);
  write("config.yaml", sharing("mps", 5));
  ASSERT_TRUE(until_healthy(10));

  write("config.yaml", "version: v1\nsharing:\n  mps:\n    resources: [{name: nvidia.com/gpu, replicas: 0}]\n");
  const auto broken = until_node(problems_of);
  EXPECT_EQ(broken["config"]["inForce"], "last good");
  EXPECT_THAT(broken["config"]["problems"][0].get<std::string>(), HasSubstr(in("config.yaml") + ":4:"));
  EXPECT_EQ(broken["resources"][0]["healthy"], 10);
  until_mps(problems_of);
  EXPECT_EQ(kubelet().view(kGpu).healthy(), 10u);

  write("config.yaml", sharing("mps", 4));
  ASSERT_TRUE(until_healthy(8));
  EXPECT_TRUE(until_says(*program("node"), "config.effective"));
  const auto mended = until_node([](const Json& status) { return !problems_of(status); });
  EXPECT_EQ(mended["config"]["inForce"], "file");
  EXPECT_EQ(mended["resources"][0]["slots"], 8);
}

// Promise: config: SIGHUP reads the file again and a bad one changes nothing.
TEST_F(NodeConfiguration, SighupReadsTheFileAgainAndABadOneChangesNothing) {
  start_all(1, 2);
  const pid_t pid = program("node")->pid();
  write("config.yaml", "version: v7\n");
  until_node(problems_of);
  program("node")->signal(SIGHUP);
  ASSERT_TRUE(until_says(*program("node"), "config.reload"));
  EXPECT_EQ(until_node(problems_of)["config"]["inForce"], "last good");
  EXPECT_EQ(kubelet().view(kGpu).healthy(), 2u);
  EXPECT_EQ(until_node([](const Json&) { return true; })["pid"], pid) << "the same process";
}

// Promise: config: A mounted ConfigMap is followed through its links.
TEST_F(NodeConfiguration, AMountedConfigMapIsFollowedThroughItsLinks) {
  make_node(2);
  const auto publish = [&](const std::string& version, const std::string& text) {
    fs::create_directories(in("map/" + version));
    write("map/" + version + "/config.yaml", text);
    fs::create_directory_symlink(version, in("map/..data_tmp"));
    fs::rename(in("map/..data_tmp"), in("map/..data"));
  };
  publish("..1", sharing("mps", 10));
  fs::create_symlink("..data/config.yaml", in("map/config.yaml"));
  config_path_ = in("map/config.yaml");
  start_kubelet();
  start_mps();
  start_node();
  ASSERT_TRUE(until_healthy(20));
  publish("..2", sharing("mps", 7));
  fs::remove_all(in("map/..1"));
  ASSERT_TRUE(until_healthy(14));
  publish("..3", "version: v1\nsharing: [\n");
  until_node(problems_of);
  EXPECT_EQ(kubelet().view(kGpu).healthy(), 14u);
  publish("..4", sharing("mps", 3));
  ASSERT_TRUE(until_healthy(6));
}

TEST_F(NodeConfiguration, AnEditThatRenamesTheResourceServesTheNewNameAndNothingUnderTheOld) {
  start_all(1, 4);
  write("config.yaml", sharing("mps", 4, "    renameByDefault: true\n"));
  const auto renamed = kubelet().wait_for_healthy("nvidia.com/gpu.shared", 4, kSoon);
  ASSERT_TRUE(renamed) << to_string(renamed.error());
  ASSERT_TRUE(until_healthy(0));
  EXPECT_TRUE(kubelet().admit(sim::one_container_pod("a", "nvidia.com/gpu.shared", 2)).admitted);
}

// Promise: config: An edit from MPS to time-slicing ends the daemons and restores the compute mode.
TEST_F(NodeConfiguration, AnEditFromMpsToTimeSlicingEndsTheDaemonsAndGivesTheComputeModeBack) {
  start_all(1, 4);
  write("config.yaml", sharing("timeSlicing", 3));
  ASSERT_TRUE(until_healthy(3));
  until_mps([](const Json& status) { return status["pools"].empty(); });
  ASSERT_TRUE(until_says(*program("mps"), "\"mode\":\"DEFAULT\""));
  const auto line = attached(start_cuda(admitted(kubelet(), "a", 1), {}));
  EXPECT_EQ(line["event"], "attached") << line;
  EXPECT_EQ(line["mps"], false);
}

// A rolling update with surge: the newer agent starts while the older still runs.
TEST_F(NodeConfiguration, ANewerAgentTakesOverAndTheOlderLeavesQuietly) {
  start_all(1, 2);
  Program& older = *program("node");
  Program& tenant = start_cuda(admitted(kubelet(), "a", 1), {"--hold"});
  ASSERT_EQ(attached(tenant)["mps"], true);
  const auto number = kubelet().registrations().back().number;
  Program& newer = start_node();
  ASSERT_TRUE(kubelet().wait_for_registration(kGpu, kSoon, number));
  until_node([&](const Json& status) { return status["pid"] == newer.pid() && status["resources"][0]["registered"]; });
  EXPECT_TRUE(older.running());
  stop(older, SIGTERM, 0);
  ASSERT_TRUE(until_healthy(2));
  EXPECT_TRUE(fs::exists(plugin_socket()));
  EXPECT_EQ(until_node([](const Json&) { return true; })["pid"], newer.pid());
  EXPECT_EQ(attached(start_cuda(admitted(kubelet(), "b", 1), {}))["mps"], true);
  EXPECT_TRUE(tenant.running());
}

}  // namespace
}  // namespace tranche::e2e
