// `tranche mps` as a whole: what it starts, adopts, reports and ends.
#include "programs/mps/mps_program_fixture.h"

namespace tranche::programs {
namespace mps_program_test {

using ::testing::HasSubstr;

TEST_F(MpsProgramTest, ServesOnePoolForEachGpuAndSaysWhatIsEnforced) {
  start();
  ASSERT_TRUE(until_serving());
  EXPECT_EQ(status_["program"], "mps");
  EXPECT_EQ(status_["driver"]["state"], "ready");
  EXPECT_EQ(status_["pools"][0]["id"], "gpu-3f2a1b4c");
  EXPECT_EQ(status_["pools"][0]["devices"], json::array({kA}));
  EXPECT_EQ(status_["pools"][1]["id"], "gpu-9d8e7f60");
  const auto& limit = status_["pools"][0]["limits"][0];
  EXPECT_EQ(limit["uuid"], kA);
  EXPECT_EQ(limit["memoryMiB"], 14377);
  EXPECT_EQ(limit["threads"], "10");
  EXPECT_EQ(limit["readBackMemory"], "14G");
  EXPECT_EQ(limit["readBackThreads"], "10.0");
  EXPECT_THAT(log(), HasSubstr("Set device pinned memory limit  device=0 total_memory_gb=140.4 replicas=10 "
                               "limit_per_replica_mib=14377"));
  EXPECT_THAT(log(), HasSubstr("uuid=" + kB));
}

TEST_F(MpsProgramTest, StopsWithoutLeavingAProcessOrAComputeMode) {
  const pid_t pid = start();
  ASSERT_TRUE(until_serving());
  EXPECT_EQ(node_->compute_mode(0), 3);
  EXPECT_EQ(node_->compute_mode(1), 3);
  const auto pids = daemons();
  ::kill(pid, SIGTERM);
  EXPECT_EQ(exit_code(pid), 0) << log();
  for (const pid_t daemon : pids) EXPECT_FALSE(runs(daemon)) << daemon;
  EXPECT_EQ(node_->compute_mode(0), 0);
  EXPECT_EQ(node_->compute_mode(1), 0);
  EXPECT_FALSE(root_->exists("mps/compute-mode.json"));
  EXPECT_FALSE(root_->exists("mps/mps.sock"));
}

TEST_F(MpsProgramTest, LeavesTheComputeModeAloneWhenConfigured) {
  write("config.yaml", config_text(10, "    computeMode: leave\n"));
  start();
  ASSERT_TRUE(until_serving());
  EXPECT_EQ(node_->compute_mode(0), 0);
  EXPECT_FALSE(root_->exists("mps/compute-mode.json"));
}

TEST_F(MpsProgramTest, RefusesToServeARootThatIsServed) {
  const pid_t first = start();
  ASSERT_TRUE(until_serving());
  const pid_t second = start("second.log");
  EXPECT_EQ(exit_code(second), 1);
  EXPECT_THAT(log("second.log"),
              HasSubstr("another tranche mps (pid " + std::to_string(first) + ") serves the MPS root"));
  EXPECT_TRUE(until_serving());
  EXPECT_TRUE(runs(first));
}

// Promise: mps/daemon: A killed `tranche mps` leaves its daemons to the next start.
TEST_F(MpsProgramTest, KilledItLeavesItsDaemonsToTheNextStart) {
  const pid_t first = start();
  ASSERT_TRUE(until_serving());
  const auto before = daemons();
  ::kill(first, SIGKILL);
  ASSERT_EQ(exit_code(first), 128 + SIGKILL);
  for (const pid_t daemon : before) EXPECT_TRUE(runs(daemon));
  connected_ = false;
  const pid_t second = start();
  ASSERT_TRUE(until([&](const json& status) { return status["pid"] == second && all_serving(status, 2); }));
  EXPECT_EQ(daemons(), before);
  ::kill(second, SIGTERM);
  EXPECT_EQ(exit_code(second), 0) << log();
  for (const pid_t daemon : before) EXPECT_FALSE(runs(daemon)) << daemon;
  EXPECT_EQ(node_->compute_mode(0), 0) << "the mode from before the first start";
}

TEST_F(MpsProgramTest, ReportsOfAKilledDaemonAndServesAgain) {
  start();
  ASSERT_TRUE(until_serving());
  const pid_t victim = daemons()[0];
  const pid_t other = daemons()[1];
  ::kill(victim, SIGKILL);
  ASSERT_TRUE(until([&](const json& status) { return all_serving(status, 2) && status["pools"][0]["restarts"] == 1; }));
  EXPECT_NE(daemons()[0], victim);
  EXPECT_EQ(daemons()[1], other);
  EXPECT_EQ(status_["pools"][0]["limits"][0]["readBackMemory"], "14G");
  EXPECT_THAT(log(), HasSubstr("was killed by signal 9 (Killed)"));
}

TEST_F(MpsProgramTest, KeepsTheLastGoodConfigurationAndShowsWhatIsWrongWithTheNewest) {
  start();
  ASSERT_TRUE(until_serving());
  const auto before = daemons();
  write("config.yaml", config_text(0));
  ASSERT_TRUE(until([](const json& status) { return !status["config"]["problems"].empty(); }));
  EXPECT_THAT(status_["config"]["problems"][0].get<std::string>(), HasSubstr("config.yaml:"));
  EXPECT_TRUE(all_serving(status_, 2));
  write("config.yaml", config_text(5));
  ASSERT_TRUE(until([](const json& status) {
    return status["config"]["problems"].empty() && all_serving(status, 2) &&
           status["pools"][0]["limits"][0]["readBackMemory"] == "28G";
  }));
  EXPECT_EQ(daemons(), before) << "new limits need no new daemon";
}

TEST_F(MpsProgramTest, EndsADaemonThatIsNotConfiguredAnyMore) {
  start();
  ASSERT_TRUE(until_serving());
  const auto before = daemons();
  write("config.yaml", "version: v1\n");
  ASSERT_TRUE(until([](const json& status) { return status["pools"].empty(); }));
  for (const pid_t daemon : before) EXPECT_FALSE(runs(daemon)) << daemon;
  ASSERT_TRUE(until([&](const json&) { return node_->compute_mode(0) == 0 && node_->compute_mode(1) == 0; }));
}

TEST_F(MpsProgramTest, WaitsForALateDriverAndSaysSo) {
  node_->set_driver_present(false);
  start();
  ASSERT_TRUE(until([](const json& status) {
    return status["driver"]["state"] == "waiting" && status["driver"]["reason"] != "the driver library is being opened";
  }));
  node_->set_driver_present(true);
  ASSERT_TRUE(until_serving());
}

TEST_F(MpsProgramTest, WaitsForALateControlProgramAndSaysSo) {
  const auto program = scratch_ / "driver/usr/bin/nvidia-cuda-mps-control";
  std::filesystem::remove(program);
  start();
  ASSERT_TRUE(until([](const json& status) { return status.value("pools", json::array()).size() == 2; }));
  EXPECT_THAT(status_["pools"][0]["reason"].get<std::string>(), HasSubstr("there is no nvidia-cuda-mps-control"));
  std::filesystem::create_symlink(standins_ + "/nvidia-cuda-mps-control", program);
  ASSERT_TRUE(until_serving());
}

TEST_F(MpsProgramTest, EndsWithStatusTwoForAConfigurationThatCannotBeUsed) {
  write("config.yaml", "version: v1\nsharing:\n  mps:\n    resources: 7\n");
  EXPECT_EQ(exit_code(start()), 2);
  EXPECT_THAT(log(), HasSubstr("config.yaml:4:"));
}

TEST_F(MpsProgramTest, ProvesEveryPoolByACudaStartAndAgainAfterAnAdoption) {
  options_.proof_program = {std::string(std::getenv("TRANCHE_BUILD")) + "/standins/probe-alone"};
  options_.environment["LD_LIBRARY_PATH"] = standins_;
  const auto proven = [](const json& status) {
    return all_serving(status, 2) && std::ranges::all_of(status["pools"], [](const json& pool) {
             return pool["proof"]["state"] == "proven" && pool["proof"]["passed"] == 1 &&
                    pool["proof"]["failed"] == 0 && pool["daemon"]["state"] == "running" && pool["restarts"] == 0;
           });
  };
  const pid_t first = start();
  ASSERT_TRUE(until(proven));
  const json before = status_;
  ::kill(first, SIGKILL);
  (void)exit_code(first);
  watcher_.reset();
  status_ = json::object();
  (void)start();
  ASSERT_TRUE(until(proven));
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(status_["pools"][i]["daemonPid"], before["pools"][i]["daemonPid"]);
}

TEST_F(MpsProgramTest, AnswersWhileAPoolThatCannotBeProvenStaysOutOfService) {
  options_.proof_program = {scratch_ / "probe"};
  write(
      "probe",
      "#!/bin/sh\necho 'tranche probe: 3 of 9 words that the GPU computed are wrong; take this GPU out' >&2\nexit 1\n");
  std::filesystem::permissions(scratch_ / "probe", std::filesystem::perms::owner_all);
  options_.environment["PATH"] = "/usr/bin:/bin";
  (void)start();
  ASSERT_TRUE(until([](const json& status) {
    const auto pools = status.value("pools", json::array());
    return pools.size() == 2 && std::ranges::all_of(pools, [](const json& pool) { return pool["state"] == "wedged"; });
  }));
  EXPECT_THAT(status_["pools"][0]["reason"].get<std::string>(),
              HasSubstr("new CUDA programs do not start: 3 of 9 words that the GPU computed are wrong"));
  EXPECT_EQ(status_["pools"][0]["proof"]["ended"]["daemons"], 0);
}

}  // namespace mps_program_test
}  // namespace tranche::programs
