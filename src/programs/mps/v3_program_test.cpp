// `tranche mps` as a whole, in tier v3: with the stand-in of a control program that supports it.
#include "programs/mps/mps_program_fixture.h"
#include "standins/mps/mps_world.h"

namespace tranche::agent {
namespace v3_program_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPool = "gpu-3f2a1b4c";
constexpr const char* kSmall = "0011223344556677";
constexpr const char* kLarge = "8899aabbccddeeff";

class V3ProgramTest : public MpsProgramTest {
 protected:
  void use_v3(const std::string& more = "") {
    write("node.yaml",
          "driver: 615.10\ngpus:\n  - profile: H200\n    uuid: " + kA + "\n  - profile: H200\n    uuid: " + kB + "\n");
    std::filesystem::remove(scratch_ / "state");
    node_ = *sim::Node::open(scratch_.path());
    write("config.yaml", config_text(10, "    tier: v3\n" + more));
  }
  std::string request(const std::string& line) {
    const auto answer = host::ask(scratch_ / "mps/mps.sock", line, 20s);
    return answer ? *answer : to_string(answer.error());
  }
  std::string open_endpoint(const std::string& grant, std::uint64_t mib, unsigned hundredths) {
    const json limit{{"uuid", kA}, {"memoryMiB", mib}, {"threadsHundredths", hundredths}};
    const json line{{"do", "openEndpoint"}, {"pool", kPool}, {"grant", grant}, {"limits", json::array({limit})}};
    return request(line.dump());
  }
  std::string remove_endpoint(const std::string& grant) {
    return request(json{{"do", "removeEndpoint"}, {"pool", kPool}, {"grant", grant}}.dump());
  }
  void serve() {
    start();
    ASSERT_TRUE(until_serving());
    ASSERT_EQ(open_endpoint(kSmall, 7188, 1000), R"({"ok":true})");
    ASSERT_EQ(open_endpoint(kLarge, 71885, 5000), R"({"ok":true})");
  }
  void kill_ours() {
    const pid_t pid = running_.back();
    ::kill(pid, SIGKILL);
    ASSERT_EQ(exit_code(pid), 128 + SIGKILL);
    connected_ = false;
  }
  void start_again() {
    const pid_t second = start();
    ASSERT_TRUE(until([&](const json& status) { return status["pid"] == second && all_serving(status, 2); }));
  }
  std::string pool_dir() const { return scratch_ / "mps/pools/" + std::string(kPool); }
  bool has_namespace(const std::string& grant) const {
    return std::filesystem::exists(pool_dir() + "/pipe/pool/" + grant + "/control");
  }
  // For changes that no status reports: checked after each response of the program.
  bool answered_until(const std::function<bool()>& condition) {
    for (int turn = 0; turn < 10000 && !condition(); ++turn)
      if (!host::ask(scratch_ / "mps/mps.sock", "status", 20s)) return false;
    return condition();
  }
  std::unique_ptr<sim::TestProcess> start_client(const std::string& grant) {
    return std::make_unique<sim::TestProcess>(
        sim::Spawn{.argv = {"sim-cuda", "--hold"},
                   .env = {{"TRANCHE_SIM_NODE", scratch_.path()},
                           {"CUDA_MPS_PIPE_DIRECTORY", pool_dir() + "/endpoints/" + grant}}});
  }
  // A client of the grant that keeps running.
  std::unique_ptr<sim::TestProcess> expect_limits(const std::string& grant, std::uint64_t mib, unsigned sms) {
    auto client = start_client(grant);
    const std::string line = client->line_with("{");
    EXPECT_EQ(sim::number_in(line, "limit") >> 20, mib) << line;
    EXPECT_EQ(sim::number_in(line, "runs_on"), sms) << line;
    return client;
  }
  bool until_clients(std::size_t count) {
    return until([&](const json& status) { return status["pools"][0]["clients"]["live"] == count; });
  }
};

// Promise: mps/daemon/tier-v3: Each grant has a namespace with its limits.
TEST_F(V3ProgramTest, EachGrantHasANamespaceAndItsClientsTheLimitsOfThat) {
  use_v3();
  serve();
  const json& pool = status_["pools"][0];
  EXPECT_EQ(pool["tier"], "v3");
  EXPECT_EQ(pool["endpoint"], "relay");
  EXPECT_THAT(pool["reason"].get<std::string>(), HasSubstr("was not tried on hardware"));
  EXPECT_THAT(log(), HasSubstr("tier: v3 is in force")) << "the log says so as well";
  const auto one = expect_limits(kSmall, 7188, 12);
  const auto two = expect_limits(kLarge, 71885, 66);
  const auto three = expect_limits(kSmall, 7188, 12);
  ASSERT_TRUE(until_clients(3));
  EXPECT_EQ(status_["pools"][0]["restarts"], 0);
}

TEST_F(V3ProgramTest, AShareOfAFractionOfAPercentHasAsManySms) {
  use_v3();
  start();
  ASSERT_TRUE(until_serving());
  ASSERT_EQ(open_endpoint(kSmall, 7188, 2273), R"({"ok":true})");
  (void)expect_limits(kSmall, 7188, 30);
}

// Promise: mps/daemon/tier-v3: A restart of `tranche mps` finds namespaces as they were.
TEST_F(V3ProgramTest, ARestartOfOursFindsEverythingAsItWas) {
  use_v3();
  serve();
  const auto before = expect_limits(kSmall, 7188, 12);
  ASSERT_TRUE(until_clients(1));
  const auto first = daemons();
  kill_ours();
  start_again();
  EXPECT_EQ(daemons(), first);
  (void)expect_limits(kLarge, 71885, 66);
  EXPECT_FALSE(before->ended_within(0ms));
}

// Promise: mps/daemon/tier-v3: Namespaces are made again after a restart of the daemon or their deletion.
TEST_F(V3ProgramTest, ARestartOfTheDaemonMakesThemAgain) {
  use_v3();
  serve();
  const pid_t daemon = daemons()[0];
  ::kill(daemon, SIGKILL);
  ASSERT_TRUE(until([](const json& status) { return all_serving(status, 2) && status["pools"][0]["restarts"] != 0; }));
  (void)expect_limits(kSmall, 7188, 12);
  (void)expect_limits(kLarge, 71885, 66);
}

TEST_F(V3ProgramTest, ARestartOfBothMakesThemAgain) {
  use_v3();
  serve();
  const pid_t daemon = daemons()[0];
  kill_ours();
  ::kill(daemon, SIGKILL);
  start_again();
  (void)expect_limits(kLarge, 71885, 66);
}

TEST_F(V3ProgramTest, ANamespaceGoesWithItsEndpointAndComesBackWithIt) {
  use_v3();
  serve();
  EXPECT_TRUE(has_namespace(kSmall));
  ASSERT_EQ(remove_endpoint(kSmall), R"({"ok":true})");
  ASSERT_TRUE(answered_until([&] { return !has_namespace(kSmall); }));
  EXPECT_TRUE(has_namespace(kLarge));
  ASSERT_EQ(open_endpoint(kSmall, 14377, 2500), R"({"ok":true})");
  (void)expect_limits(kSmall, 14377, 32);
}

// Promise: mps/daemon/tier-v3: A grant's limits stay while its clients run.
TEST_F(V3ProgramTest, AGrantsLimitsStayWhileItsClientsRun) {
  use_v3();
  serve();
  auto tenant = expect_limits(kSmall, 7188, 12);
  EXPECT_THAT(open_endpoint(kSmall, 14377, 2500), HasSubstr("a grant's limits cannot change while its clients run"));
  EXPECT_EQ(open_endpoint(kSmall, 7188, 1000), R"({"ok":true})") << "the same word again is none";
  ASSERT_TRUE(until_clients(1));
  tenant.reset();
  ASSERT_TRUE(until([](const json& status) {
    const json endpoints = status["pools"][0].value("endpoints", json::array());
    return endpoints.size() == 2 && endpoints[0]["clients"].empty() && status["pools"][0]["clients"]["live"] == 0;
  }));
  EXPECT_EQ(open_endpoint(kSmall, 14377, 2500), R"({"ok":true})");
  (void)expect_limits(kSmall, 14377, 32);
}

TEST_F(V3ProgramTest, AnEndpointOfWhichNothingIsReportedKeepsTheLimitsOfTheSlotThen) {
  use_v3();
  start();
  ASSERT_TRUE(until_serving());
  ASSERT_EQ(request(json{{"do", "openEndpoint"}, {"pool", kPool}, {"grant", kSmall}}.dump()), R"({"ok":true})");
  const auto tenant = expect_limits(kSmall, 14377, 12);
  write("config.yaml", config_text(5, "    tier: v3\n"));
  ASSERT_TRUE(until([](const json& status) {
    return all_serving(status, 2) && status["pools"][0]["limits"][0]["memoryMiB"] == 28754;
  }));
  (void)expect_limits(kSmall, 14377, 12);
}

// Promise: mps/daemon/tier-v3: Namespaces are made again after a restart of the daemon or their deletion.
TEST_F(V3ProgramTest, ANamespaceThatSomebodyDeletesIsMadeAgain) {
  use_v3();
  serve();
  sim::TestProcess tool(
      {.argv = {"nvidia-cuda-mps-control", "namespace", "delete", kSmall, "--server=pool"},
       .env = {{"CUDA_MPS_PIPE_DIRECTORY", pool_dir() + "/pipe"}, {"TRANCHE_SIM_NODE", scratch_.path()}}});
  ASSERT_TRUE(tool.ended_within(20s)) << tool.rest();
  ASSERT_TRUE(answered_until([&] { return has_namespace(kSmall); }));
  (void)expect_limits(kSmall, 7188, 12);
}

TEST_F(V3ProgramTest, WhereEndpointsAreLinksTheyAreTheNamespacesSockets) {
  use_v3("    endpoint: link\n");
  serve();
  EXPECT_EQ(status_["pools"][0]["endpoint"], "link");
  EXPECT_THAT(status_["pools"][0]["notEnforced"].dump(), HasSubstr("any client can list all tenants"));
  (void)expect_limits(kSmall, 7188, 12);
  (void)expect_limits(kLarge, 71885, 66);
  ::kill(daemons()[0], SIGKILL);
  ASSERT_TRUE(until([](const json& status) { return all_serving(status, 2) && status["pools"][0]["restarts"] != 0; }));
  (void)expect_limits(kLarge, 71885, 66);
}

TEST_F(V3ProgramTest, ChangesToItAndBackWhenNobodyComputes) {
  use_v3();
  write("config.yaml", config_text(10));
  serve();
  EXPECT_EQ(status_["pools"][0]["tier"], "v2");
  {
    const auto tenant = expect_limits(kSmall, 7188, 12);
    ASSERT_TRUE(until_clients(1));
    write("config.yaml", config_text(10, "    tier: v3\n"));
    ASSERT_TRUE(until([](const json& status) {
      return status["pools"][0]["reason"].get<std::string>().find("when they have left") != std::string::npos;
    }));
    EXPECT_FALSE(tenant->ended_within(0ms));
  }
  ASSERT_TRUE(until([&](const json& status) { return all_serving(status, 2) && status["pools"][0]["tier"] == "v3"; }));
  (void)expect_limits(kSmall, 7188, 12);
  ASSERT_TRUE(until_clients(0));
  write("config.yaml", config_text(10));
  ASSERT_TRUE(until([&](const json& status) { return all_serving(status, 2) && status["pools"][0]["tier"] == "v2"; }));
  (void)expect_limits(kLarge, 71885, 66);
}

TEST_F(V3ProgramTest, FallsBackToV2WhereOnePoolServesSeveralGpus) {
  use_v3();
  write("config.yaml",
        "version: v1\nsharing:\n  mps:\n    tier: v3\n    split: span\n    resources:\n"
        "      - name: nvidia.com/gpu\n        replicas: 10\n");
  start();
  ASSERT_TRUE(until_serving(1));
  EXPECT_EQ(status_["pools"][0]["tier"], "v2");
  EXPECT_THAT(status_["pools"][0]["reason"].get<std::string>(),
              HasSubstr("a namespace has one memory limit for all devices, and this pool serves several GPUs"));
}

}  // namespace v3_program_test
}  // namespace tranche::agent
