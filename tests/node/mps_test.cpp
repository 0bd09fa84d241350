// What the node does when daemons and `tranche mps` come and go, and what tenants notice of it: nothing, where
// possible.
#include <csignal>
#include <filesystem>

#include "node/bed.h"
#include "os/clock/clock.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

using NodeMps = NodeBed;

std::vector<int> daemons(const Json& status) {
  std::vector<int> pids;
  for (const auto& pool : status["pools"]) pids.push_back(pool["daemonPid"]);
  return pids;
}

std::size_t count_of(const std::string& text, const std::string& words) {
  std::size_t count = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

// Promise: mps/daemon: A killed daemon takes only its own GPU's slots away.
TEST_F(NodeMps, AKilledDaemonTakesOnlyItsOwnGpusSlotsAwayAndItsEndpointsWorkAgain) {
  start_all(2, 2);
  const auto grant = admitted(kubelet(), "a", 2);
  const int gpu = grant.envs.at("NVIDIA_VISIBLE_DEVICES") == uuid(0) ? 0 : 1;
  ASSERT_EQ(attached(start_cuda(grant, {}))["event"], "attached");
  const auto before = until_serving(2);
  const auto messages = kubelet().messages().size();

  ASSERT_EQ(::kill(pool_of(before, gpu)["daemonPid"], SIGKILL), 0);
  ASSERT_TRUE(until_list_says(messages, gpu, false));
  ASSERT_TRUE(until_healthy(4));
  EXPECT_TRUE(never_unhealthy(messages, 1 - gpu));

  const auto after = until_serving(2);
  EXPECT_EQ(pool_of(after, gpu)["restarts"], 1);
  EXPECT_EQ(pool_of(after, 1 - gpu)["restarts"], 0);
  EXPECT_EQ(pool_of(after, 1 - gpu)["daemonPid"], pool_of(before, 1 - gpu)["daemonPid"]);
  const auto line = attached(start_cuda(grant, {}));
  EXPECT_EQ(line["mps"], true) << "through the same endpoint: " << line;
  EXPECT_EQ(line["gpu"], uuid(gpu));
}

// Promise: observe/status: One request for the status shows the processes that the driver lists now.
TEST_F(NodeMps, OneRequestForTheStatusShowsWhatTheDriverListsNow) {
  start_all(1, 2);
  const auto grant = admitted(kubelet(), "a", 1);
  ASSERT_EQ(attached(start_cuda(grant, {"--allocate", "1G", "--hold"}))["event"], "attached");
  const auto begin = os::mono_now();
  ASSERT_TRUE(until([&] { return os::mono_now() - begin > std::chrono::seconds(1); }, "earlier figures to be old"));
  Program& top = start({tranche(), "top", "--json", "--socket", node_socket()});
  ASSERT_EQ(finish(top), 0) << top.err();
  const Json shown = Json::parse(top.out(), nullptr, false);
  ASSERT_EQ(shown["tenants"].size(), 1u) << top.out();
  EXPECT_EQ(shown["tenants"][0]["processes"], 1) << top.out();
  EXPECT_GE(shown["tenants"][0]["usedMiB"], 1024) << top.out();
}

TEST_F(NodeMps, APoolThatIsConfiguredAgainWhileItEndsBeginsAgain) {
  make_node(2);
  write("config.yaml", sharing("mps", 4));
  Program& mps = start_mps();
  until_serving(2);
  const auto ended = [&] { return count_of(mps.err(), R"("state":"absent","was":"stopping")"); };
  for (int round = 0; round < 20; ++round) {
    const auto before = ended();
    write("config.yaml", "version: v1\n");
    // The daemon has ended, and its server perhaps not yet.
    ASSERT_TRUE(until([&] { return ended() > before; }, "a daemon to end"));
    write("config.yaml", sharing("mps", 4));
    until_serving(2);
    ASSERT_FALSE(HasFailure()) << round;
  }
}

TEST_F(NodeMps, APoolThatIsConfiguredAgainWhileItEndsWaitsForWhoCameMeanwhile) {
  make_node(1);
  write("config.yaml", sharing("mps", 4));
  Program& mps = start_mps();
  until_serving(1);
  const auto asked_to_stop = [&] { return count_of(mps.err(), R"("why":"asked to stop")"); };
  const auto given_back = [&] { return count_of(mps.err(), R"("mode":"DEFAULT")"); };
  for (int round = 0; round < 10; ++round) {
    const auto before = asked_to_stop();
    const auto given_back_before = given_back();
    write("mps/other-holders", uuid(0) + "\n");
    write("config.yaml", "version: v1\n");
    ASSERT_TRUE(until([&] { return asked_to_stop() > before; }, "a daemon to be stopped"));
    write("config.yaml", sharing("mps", 4));
    // Whether that came before or after its end: whoever has the GPU without MPS has it as it was.
    until_mps([](const Json& status) {
      return !status["pools"].empty() && status["pools"][0]["state"] == "absent" &&
             status["pools"][0]["reason"].get<std::string>().contains("without MPS");
    });
    ASSERT_TRUE(until([&] { return given_back() > given_back_before; }, "the compute mode to be given back"));
    ASSERT_THAT(shown_node(), Not(HasSubstr("exclusive")));
    write("mps/other-holders", "");
    until_serving(1);
    ASSERT_THAT(shown_node(), HasSubstr("mode exclusive-process"));
    ASSERT_FALSE(HasFailure()) << round;
  }
}

// What is reported first is not what was written first: a file beside the configuration has it read before the holders.
TEST_F(NodeMps, HoldersThatWereWrittenBeforeAConfigurationAreKnownBeforeIt) {
  make_node(1);
  write("config.yaml", "version: v1\n");
  Program& mps = start_mps();
  until_mps([](const Json&) { return true; });
  mps.signal(SIGSTOP);
  write("beside.yaml", "");
  write("mps/other-holders", uuid(0) + "\n");
  write("config.yaml", sharing("mps", 4));
  mps.signal(SIGCONT);
  until_mps([](const Json& status) {
    return !status["pools"].empty() && status["pools"][0]["reason"].get<std::string>().contains("without MPS");
  });
  EXPECT_THAT(mps.err(), AllOf(Not(HasSubstr("pool.state")), Not(HasSubstr("compute_mode.set"))));
  write("mps/other-holders", "");
  until_serving(1);
}

TEST_F(NodeMps, AStoppedTrancheMpsMakesEverySlotUnhealthyAndSaysWhyAndAStartedOneHealthy) {
  start_all(2, 2);
  const auto grant = admitted(kubelet(), "a", 1);
  EXPECT_EQ(finish(start_cuda(grant, {})), 0);
  auto& first = *program("mps");
  stop(first, SIGTERM, 0);
  ASSERT_TRUE(until_healthy_of(4, 0));
  const auto without = until_node([](const Json& status) { return status["mps"]["connected"] == false; });
  EXPECT_THAT(device_of(without, 0)["reason"].get<std::string>(), HasSubstr("mps/mps.sock"));
  EXPECT_THAT(without["mps"]["problem"].get<std::string>(), HasSubstr("tranche mps is not running"));
  start_mps();
  ASSERT_TRUE(until_healthy(4));
  EXPECT_EQ(attached(start_cuda(grant, {}))["mps"], true) << "through the endpoint from before";
}

TEST_F(NodeMps, AKilledTrancheMpsIsNotNoticedByATenantAndItsDaemonsAreAdopted) {
  start_all(2, 2);
  const auto grant = admitted(kubelet(), "a", 1);
  Program& tenant = start_cuda(grant, {"--hold", "--kernel-ms", "5", "--allocate", "1GiB"});
  ASSERT_EQ(attached(tenant)["event"], "attached");
  const auto before = daemons(until_serving(2));
  stop(*program("mps"), SIGKILL, 128 + SIGKILL);
  ASSERT_TRUE(until_healthy_of(4, 0));
  Program& second = start_mps();
  ASSERT_TRUE(until_healthy(4));
  const auto status = until_serving(2);
  EXPECT_EQ(status["pid"], second.pid());
  EXPECT_EQ(daemons(status), before);
  EXPECT_EQ(attached(start_cuda(grant, {}))["mps"], true);
  EXPECT_TRUE(tenant.running()) << tenant.out();
  EXPECT_THAT(tenant.out(), ::testing::Not(HasSubstr("\"event\":\"error\"")));
}

TEST_F(NodeMps, AKilledAgentComesBackWithTheSameIdsAndGrantsWhileAPodRuns) {
  start_all(1, 4);
  const auto grant = admitted(kubelet(), "a", 4);
  Program& tenant = start_cuda(grant, {"--hold", "--kernel-ms", "5"});
  ASSERT_EQ(attached(tenant)["event"], "attached");
  const auto devices = kubelet().view(kGpu).devices;
  const auto number = kubelet().registrations().back().number;

  stop(*program("node"), SIGKILL, 128 + SIGKILL);
  Program& second = start_node();
  ASSERT_TRUE(kubelet().wait_for_registration(kGpu, kSoon, number));
  ASSERT_TRUE(until_healthy(4));
  EXPECT_EQ(kubelet().view(kGpu).devices, devices);
  const auto status = until_node([](const Json& s) { return !s["grants"].empty(); });
  EXPECT_EQ(status["pid"], second.pid());
  EXPECT_EQ(status["grants"][0]["pod"], "a");
  EXPECT_EQ(in("mps/pools/" + device_of(status, 0)["pool"].get<std::string>() + "/endpoints/" +
               status["grants"][0]["grant"].get<std::string>()),
            endpoint_of(grant));
  EXPECT_TRUE(tenant.running()) << tenant.out();

  kubelet().remove_pod("default/a");
  auto again = admitted(kubelet(), "b", 4);  // all four, so the same ids
  EXPECT_EQ(again.envs, grant.envs);
  EXPECT_EQ(again.mounts, grant.mounts);
  EXPECT_EQ(again.slots, grant.slots);
}

// Promise: mps/daemon-home: With the home `pod` daemons end with `tranche mps`.
TEST_F(NodeMps, StoppedBothLeaveNoProcessNoSocketAndTheComputeModesOfBefore) {
  start_all(2, 2);
  ASSERT_THAT(shown_node(), HasSubstr("mode exclusive-process"));
  EXPECT_EQ(finish(start_cuda(admitted(kubelet(), "a", 1), {})), 0);
  stop(*program("node"), SIGTERM, 0);
  EXPECT_FALSE(fs::exists(plugin_socket()));
  EXPECT_FALSE(fs::exists(node_socket()));
  stop(*program("mps"), SIGTERM, 0);
  EXPECT_FALSE(fs::exists(mps_socket()));
  EXPECT_THAT(processes(), ::testing::IsEmpty());
  EXPECT_THAT(shown_node(), ::testing::Not(HasSubstr("exclusive")));
}

}  // namespace
}  // namespace tranche::e2e
