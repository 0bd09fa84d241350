// `tranche mps` as a whole, with grants of different limits behind one pool: each client gets the limits of its own
// grant, in any order of arrival (docs/internals/mps-contract.md, "A grant's own limits").
#include <random>

#include "programs/mps/mps_program_fixture.h"
#include "standins/mps/mps_world.h"

namespace tranche::programs {
namespace grant_limits_program_test {

using ::testing::HasSubstr;

constexpr const char* kPool = "gpu-3f2a1b4c";
struct ExpectedLimits {
  const char* grant;
  std::uint64_t mib;
  unsigned hundredths;
  unsigned sms;  // the percentage's SMs, of 132
};
constexpr ExpectedLimits kSmall{"0011223344556677", 7188, 1000, 12};
constexpr ExpectedLimits kLarge{"8899aabbccddeeff", 71885, 5000, 66};

class GrantsOfAPool : public MpsProgramTest {
 protected:
  std::string request(const std::string& line) {
    const auto answer = os::ask(scratch_ / "mps/mps.sock", line, 60s);
    return answer ? *answer : to_string(answer.error());
  }
  void open_endpoint(const ExpectedLimits& limits) {
    const json limit{{"uuid", kA}, {"memoryMiB", limits.mib}, {"threadsHundredths", limits.hundredths}};
    const json line{{"do", "openEndpoint"}, {"pool", kPool}, {"grant", limits.grant}, {"limits", json::array({limit})}};
    ASSERT_EQ(request(line.dump()), R"({"ok":true})");
  }
  void serve() {
    start();
    ASSERT_TRUE(until_serving());
    open_endpoint(kSmall);
    open_endpoint(kLarge);
  }
  void restart() {
    const pid_t first = running_.back();
    ::kill(first, SIGKILL);
    ASSERT_EQ(exit_code(first), 128 + SIGKILL);
    connected_ = false;
    const pid_t second = start();
    ASSERT_TRUE(until([&](const json& status) { return status["pid"] == second && all_serving(status, 2); }));
  }
  std::string endpoint(const ExpectedLimits& limits) const {
    return scratch_ / "mps/pools/" + std::string(kPool) + "/endpoints/" + limits.grant;
  }
  std::unique_ptr<sim::TestProcess> start_client(const ExpectedLimits& limits,
                                                 std::map<std::string, std::string> env = {}) {
    env["TRANCHE_SIM_NODE"] = scratch_.path();
    env["CUDA_MPS_PIPE_DIRECTORY"] = endpoint(limits);
    return std::make_unique<sim::TestProcess>(sim::Spawn{.argv = {"sim-cuda", "--hold"}, .env = std::move(env)});
  }
  static void expect_limits(sim::TestProcess& client, const ExpectedLimits& limits) {
    const std::string line = client.line_with("{");
    EXPECT_THAT(line, HasSubstr("\"mps\":true"));
    EXPECT_EQ(sim::number_in(line, "limit") >> 20, limits.mib) << line;
    EXPECT_EQ(sim::number_in(line, "runs_on"), limits.sms) << line;
  }
  void expect_limits(const ExpectedLimits& limits) {
    const auto client = start_client(limits);
    expect_limits(*client, limits);
  }
  json endpoint_of(const ExpectedLimits& limits) const {
    for (const auto& one : status_["pools"][0]["endpoints"]) {
      if (one["grant"] == limits.grant) return one;
    }
    return json::object();
  }
};

// Promise: mps/limits/limits: A hundred clients in any order each get the limits of their grant.
TEST_F(GrantsOfAPool, AHundredClientsInAnyOrderGetEachTheLimitsOfItsGrant) {
  serve();
  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::pair<const ExpectedLimits*, std::unique_ptr<sim::TestProcess>>> clients;
    for (int i = 0; i < 10; ++i) {
      const ExpectedLimits* limits = random() % 2 == 0 ? &kSmall : &kLarge;
      clients.emplace_back(limits, start_client(*limits));
    }
    for (auto& [limits, client] : clients) expect_limits(*client, *limits);
  }
  ASSERT_TRUE(until([&](const json& status) { return all_serving(status, 2); }));
  EXPECT_EQ(status_["pools"][0]["restarts"], 0);
  EXPECT_EQ(log().find("other limits"), std::string::npos) << "the pool fought against the limits of a turn";
}

// Promise: mps/limits/limits: A client's own variables lower its limits and never raise them.
TEST_F(GrantsOfAPool, WhoAsksForMoreGetsNoMoreAndWhoAsksForLessGetsLess) {
  serve();
  const auto more = start_client(
      kSmall, {{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", kA + "=100G"}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "90"}});
  expect_limits(*more, kSmall);
  const auto less = start_client(
      kLarge, {{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", kA + "=7188M"}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10"}});
  expect_limits(*less, kSmall);
  // Measured: an unreadable percentage changes nothing, but an unreadable memory limit removes the server's limit as
  // well as the daemon's, so such a process is refused.
  const auto misread = start_client(kSmall, {{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "zz"}});
  expect_limits(*misread, kSmall);
  const auto lifted = start_client(kSmall, {{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "zz"}});
  EXPECT_THAT(lifted->line_with("{"), HasSubstr("CUDA_ERROR_MPS_CONNECTION_FAILED"));
  ASSERT_TRUE(until([&](const json&) { return endpoint_of(kSmall).value("limitsLifted", 0) > 0; }));
  EXPECT_THAT(endpoint_of(kSmall)["refusedWhy"].get<std::string>(), HasSubstr("such as " + kA + "=4096M"));
  EXPECT_EQ(endpoint_of(kLarge)["limitsLifted"], 0);
  EXPECT_THAT(log(), HasSubstr("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="));
}

// Promise: mps/limits/limits: A grant's limits survive a restart of `tranche mps`.
TEST_F(GrantsOfAPool, ARestartOfTrancheMpsKeepsThem) {
  serve();
  const auto before = start_client(kSmall);
  expect_limits(*before, kSmall);
  restart();
  expect_limits(kLarge);
  expect_limits(kSmall);
  EXPECT_FALSE(before->ended_within(0ms));
  EXPECT_EQ(endpoint_of(kSmall)["limits"],
            json::parse(R"([{"uuid":")" + kA + R"(","memoryMiB":7188,"threadsHundredths":1000}])"));
}

// Promise: mps/limits/limits: A new configuration leaves earlier grants' limits alone.
TEST_F(GrantsOfAPool, AnotherConfigurationLeavesTheGrantsOfBeforeAlone) {
  serve();
  expect_limits(kSmall);
  write("config.yaml", config_text(5));
  ASSERT_TRUE(until([](const json& status) {
    return all_serving(status, 2) && status["pools"][0]["limits"][0]["memoryMiB"] == 28754;
  }));
  expect_limits(kSmall);
  expect_limits(kLarge);
}

TEST_F(GrantsOfAPool, AfterAServerWasKilledTheNextHasTheLimitsOfWhoeverStartsIt) {
  serve();
  expect_limits(kLarge);
  for (const ExpectedLimits* limits : {&kSmall, &kLarge, &kSmall}) {
    ASSERT_TRUE(until([](const json& status) { return !status["pools"][0]["servers"].empty(); }));
    const pid_t server = status_["pools"][0]["servers"][0]["pid"];
    ::kill(server, SIGKILL);
    ASSERT_TRUE(until([&](const json& status) {
      const auto& servers = status["pools"][0]["servers"];
      return servers.empty() || servers[0]["pid"] != server;
    }));
    expect_limits(*limits);
  }
}

TEST_F(GrantsOfAPool, AfterADaemonWasKilledTooAndInItsPlaceNobodyComesInWithOthers) {
  serve();
  expect_limits(kLarge);
  const pid_t daemon = daemons()[0];
  ::kill(daemon, SIGKILL);
  ASSERT_TRUE(until([&](const json& status) { return all_serving(status, 2) && daemons()[0] != daemon; }));
  expect_limits(kSmall);
  expect_limits(kLarge);
}

// Promise: mps/limits/limits: A grant's new limits apply to clients to come.
TEST_F(GrantsOfAPool, ASecondWordReplacesTheFirstForClientsToCome) {
  serve();
  const auto before = start_client(kSmall);
  expect_limits(*before, kSmall);
  const ExpectedLimits grown{kSmall.grant, kLarge.mib, kLarge.hundredths, kLarge.sms};
  open_endpoint(grown);
  expect_limits(grown);
  // Without limits in the request nothing changes.
  ASSERT_EQ(request(R"({"do":"openEndpoint","pool":"gpu-3f2a1b4c","grant":"0011223344556677"})"), R"({"ok":true})");
  restart();
  expect_limits(grown);
}

TEST_F(GrantsOfAPool, AnEndpointWithoutLimitsHasThePoolsOwn) {
  serve();
  expect_limits(kSmall);
  const ExpectedLimits own{"0000000000000001", 14377, 1000, 12};
  ASSERT_EQ(request(R"({"do":"openEndpoint","pool":"gpu-3f2a1b4c","grant":"0000000000000001"})"), R"({"ok":true})");
  expect_limits(own);
  ASSERT_TRUE(until([&](const json&) { return endpoint_of(own).contains("limits"); }));
  EXPECT_TRUE(endpoint_of(own)["limits"].is_null());
}

// Promise: mps/limits/limits: A grant whose limits cannot be read gets no client.
TEST_F(GrantsOfAPool, WhoseLimitsCannotBeReadIsNotAdmittedUntilTheyAreSetAgain) {
  serve();
  write("mps/pools/gpu-3f2a1b4c/limits/0011223344556677", "GPU-3f2a");
  restart();
  const auto refused = start_client(kSmall);
  EXPECT_THAT(refused->line_with("{"), HasSubstr("CUDA_ERROR_MPS_CONNECTION_FAILED"));
  expect_limits(kLarge);
  ASSERT_TRUE(until([&](const json&) { return endpoint_of(kSmall).value("failed", 0) > 0; }));
  EXPECT_THAT(endpoint_of(kSmall)["reason"].get<std::string>(), HasSubstr("the grant's limits cannot be read"));
  open_endpoint(kSmall);
  expect_limits(kSmall);
}

// Promise: mps/limits/limits: A grant's limits are removed with its endpoint.
TEST_F(GrantsOfAPool, TheirLimitsGoWithTheirEndpoints) {
  serve();
  EXPECT_TRUE(root_->exists("mps/pools/gpu-3f2a1b4c/limits/0011223344556677"));
  EXPECT_THAT(request(R"({"do":"removeEndpoint","pool":"gpu-2","grant":"0011223344556677"})"),
              HasSubstr("does not serve this pool"));
  EXPECT_FALSE(std::filesystem::exists(endpoint(kSmall) + "/limits"));
  ASSERT_EQ(request(R"({"do":"removeEndpoint","pool":"gpu-3f2a1b4c","grant":"0011223344556677"})"), R"({"ok":true})");
  EXPECT_FALSE(root_->exists("mps/pools/gpu-3f2a1b4c/limits/0011223344556677"));
}

// Promise: mps/limits/limits: The status shows a grant's limits and what servers report.
TEST_F(GrantsOfAPool, LimitsAndWhatServersHoldAreShown) {
  serve();
  const auto client = start_client(kSmall);
  expect_limits(*client, kSmall);
  ASSERT_TRUE(until([](const json& status) {
    const auto& servers = status["pools"][0]["servers"];
    return !servers.empty() && servers[0]["limits"].is_object() && servers[0]["limits"]["threads"] == "10.0" &&
           servers[0]["limits"]["memory"][0]["memory"] == "7G";
  }));
  EXPECT_EQ(status_["pools"][0]["limits"][0]["next"], json::parse(R"({"memoryMiB":7188,"threads":"10"})"));
  EXPECT_EQ(endpoint_of(kLarge)["limits"][0]["memoryMiB"], 71885);
  EXPECT_EQ(endpoint_of(kLarge)["limits"][0]["threadsHundredths"], 5000);
}

TEST_F(GrantsOfAPool, WhereTheGpusAreOnePoolEachGrantHasItsLimitOnEachOfItsGpus) {
  write("config.yaml", config_text(10, "    failRequestsGreaterThanOne: false\n    split: span\n"));
  start();
  ASSERT_TRUE(until_serving(1));
  const std::string pool = status_["pools"][0]["id"];
  ASSERT_EQ(status_["pools"][0]["devices"].size(), 2u);
  const auto open = [&](const char* grant, const json& limits) {
    const json line{{"do", "openEndpoint"}, {"pool", pool}, {"grant", grant}, {"limits", limits}};
    EXPECT_EQ(request(line.dump()), R"({"ok":true})");
  };
  const auto limit = [](const std::string& uuid, int mib) {
    return json{{"uuid", uuid}, {"memoryMiB", mib}, {"threadsHundredths", 1000}};
  };
  open(kSmall.grant, json::array({limit(kA, 7188), limit(kB, 14377)}));
  open(kLarge.grant, json::array({limit(kB, 28754)}));
  const auto start_at = [&](const char* grant, const std::string& visible) {
    return std::make_unique<sim::TestProcess>(
        sim::Spawn{.argv = {"sim-cuda", "--hold", "--all-devices"},
                   .env = {{"TRANCHE_SIM_NODE", scratch_.path()},
                           {"NVIDIA_VISIBLE_DEVICES", visible},
                           {"CUDA_MPS_PIPE_DIRECTORY", scratch_ / ("mps/pools/" + pool + "/endpoints/" + grant)}}});
  };
  for (int i = 0; i < 3; ++i) {
    const auto both = start_at(kSmall.grant, std::string(kA) + "," + kB);
    const auto second = start_at(kLarge.grant, kB);
    EXPECT_EQ(sim::number_in(both->line_with(kA), "limit") >> 20, 7188u);
    EXPECT_EQ(sim::number_in(both->line_with(kB), "limit") >> 20, 14377u);
    EXPECT_EQ(sim::number_in(second->line_with(kB), "limit") >> 20, 28754u);
  }
}

// Promise: mps/relay: A GPU at its client capacity keeps out only clients of grants that hold it.
TEST_F(GrantsOfAPool, AGpuThatHasItsClientsKeepsOutOnlyThoseWhoHoldIt) {
  write("config.yaml", config_text(10, "    failRequestsGreaterThanOne: false\n    split: span\n    maxClients: 2\n"));
  start();
  ASSERT_TRUE(until_serving(1));
  const std::string pool = status_["pools"][0]["id"];
  const auto open = [&](const char* grant, const std::string& uuid) {
    const json limit{{"uuid", uuid}, {"memoryMiB", 14377}, {"threadsHundredths", 1000}};
    const json line{{"do", "openEndpoint"}, {"pool", pool}, {"grant", grant}, {"limits", json::array({limit})}};
    EXPECT_EQ(request(line.dump()), R"({"ok":true})");
  };
  open(kSmall.grant, kA);
  open(kLarge.grant, kB);
  const auto start_at = [&](const char* grant, const std::string& visible) {
    return std::make_unique<sim::TestProcess>(
        sim::Spawn{.argv = {"sim-cuda", "--hold"},
                   .env = {{"TRANCHE_SIM_NODE", scratch_.path()},
                           {"CUDA_VISIBLE_DEVICES", visible},
                           {"CUDA_MPS_PIPE_DIRECTORY", scratch_ / ("mps/pools/" + pool + "/endpoints/" + grant)}}});
  };
  const auto is_in = [](sim::TestProcess& client) {
    return client.line_with("{").find("\"attached\"") != std::string::npos;
  };
  const auto one = start_at(kSmall.grant, kA), two = start_at(kSmall.grant, kA);
  EXPECT_TRUE(is_in(*one));
  EXPECT_TRUE(is_in(*two));
  const auto three = start_at(kSmall.grant, kA);
  EXPECT_FALSE(is_in(*three));
  const auto there = start_at(kLarge.grant, kB), too = start_at(kLarge.grant, kB);
  EXPECT_TRUE(is_in(*there));
  EXPECT_TRUE(is_in(*too)) << "the other GPU had room";
  ASSERT_TRUE(until([&](const json& status) {
    const std::string reason = status["pools"][0]["reason"];
    return endpoint_of(kSmall)["refused"] == 1 && reason.find("of its fullest GPU: all 2 clients") != std::string::npos;
  }));
  EXPECT_EQ(endpoint_of(kLarge)["refused"], 0);
}

TEST_F(GrantsOfAPool, AClientThatWasBeingEndedWhenTrancheMpsWasKilledIsEndedByItsNextStart) {
  serve();
  const auto ended = start_client(kSmall), neighbour = start_client(kLarge);
  expect_limits(*ended, kSmall);
  expect_limits(*neighbour, kLarge);
  const json line{{"do", "removeEndpoint"}, {"pool", kPool}, {"grant", kSmall.grant}};
  EXPECT_EQ(request(line.dump()), R"({"ok":true})");
  run_until([&] {
    const auto sight = os::look_at_process(ended->pid());
    return sight && sight->state == 'T';
  });
  restart();
  EXPECT_TRUE(ended->ended_within(30s)) << "it is not left stopped";
  EXPECT_FALSE(neighbour->ended_within(0ms));
  run_until([&] { return log().find("clients.end_finished") != std::string::npos; });
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "mps/ending.txt"));
}

// The proof is a CUDA start without an endpoint: it gets the pool's own limits, and delays clients only briefly.
// Promise: mps/limits/limits: A proof runs with the pool's own limits.
TEST_F(GrantsOfAPool, AProofHasThePoolsOwnLimitsAndGrantsKeepTheirs) {
  options_.proof_program = {std::string(std::getenv("TRANCHE_BUILD")) + "/standins/probe-alone"};
  options_.environment["LD_LIBRARY_PATH"] = standins_;
  options_.proof.settle = 10ms;
  options_.proof.doubt_every = 100ms;
  serve();
  for (int i = 0; i < 10; ++i) expect_limits(i % 2 == 0 ? kSmall : kLarge);
  const pid_t server = status_["pools"][0]["servers"][0]["pid"];
  ::kill(server, SIGKILL);  // a doubt
  ASSERT_TRUE(until([](const json& status) { return status["pools"][0]["proof"]["passed"] >= 2; }));
  EXPECT_EQ(status_["pools"][0]["proof"]["failed"], 0);
  for (int i = 0; i < 10; ++i) expect_limits(i % 2 == 0 ? kSmall : kLarge);
}

}  // namespace grant_limits_program_test
}  // namespace tranche::programs
