// The probe as a process on a simulated node: alone on a GPU, and as an MPS client with limits.
#include <signal.h>
#include <unistd.h>

#include "contract/probe_process.h"

namespace tranche::probe {
namespace {

using testing::HasSubstr;

TEST_F(Probe, AloneOnAGpuSeesAllOfIt) {
  ProbeCliOptions options = quick();
  options.probe.allocate = {gib(1), gib(500)};
  const Ended probe = run(options, {{"CUDA_MPS_PIPE_DIRECTORY", world_.dir() + "/nothing"}});
  ASSERT_EQ(probe.status, 0) << probe.err;
  const Json json = probe.json();
  EXPECT_EQ(json["device"]["name"], "NVIDIA H200");
  EXPECT_EQ(json["device"]["uuid"], world_.uuid(0));
  EXPECT_EQ(json["device"]["visible"], 2);
  EXPECT_EQ(json["sms"]["attribute"], 132);
  EXPECT_EQ(json["sms"]["seen"], 132);
  EXPECT_EQ(json["answers"]["wrong"], 0);
  EXPECT_GT(json["answers"]["checked"], 4'000'000);
  EXPECT_FALSE(json["mps"]["connected"]);
  EXPECT_TRUE(json["allocations"][0]["granted"]);
  EXPECT_EQ(json["allocations"][1]["error"], "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_GT(json["throughput"]["blocksPerSecond"], 0);
}

// Promise: probe: `--tensor-cores` computes with tensor cores and checks the sums.
TEST_F(Probe, ComputesOnTensorCores) {
  ProbeCliOptions options = quick();
  options.probe.tensor_cores = true;
  const Ended probe = run(options);
  ASSERT_EQ(probe.status, 0) << probe.err;
  const Json json = probe.json();
  EXPECT_TRUE(json["throughput"]["tensorCores"]);
  EXPECT_EQ(json["answers"]["wrong"], 0);
  EXPECT_EQ(json["answers"]["checked"], (4 << 20) + 8 * 132 * 1024 + 132 * 1024);
}

TEST_F(Probe, TakesTheGpuThatWasNamed) {
  ProbeCliOptions options = quick();
  options.probe.device = world_.uuid(1);
  const Ended probe = run(options);
  ASSERT_EQ(probe.status, 0) << probe.err;
  EXPECT_EQ(probe.json()["device"]["uuid"], world_.uuid(1));
  EXPECT_EQ(probe.json()["device"]["index"], 1);
}

TEST_F(Probe, NamesTheGpusThereAreWhenTheOneAskedForIsNot) {
  ProbeCliOptions options = quick();
  options.probe.device = "GPU-elsewhere";
  Ended probe = run(options);
  EXPECT_EQ(probe.status, 2);
  EXPECT_THAT(probe.err, HasSubstr(world_.uuid(1)));
  options.probe.device = "7";
  probe = run(options);
  EXPECT_EQ(probe.status, 2);
  EXPECT_THAT(probe.err, HasSubstr("2 visible"));
}

TEST_F(Probe, AsAnMpsClientSeesItsShareOnly) {
  world_.start_daemon();
  world_.ask("set_default_active_thread_percentage 20");
  world_.ask("set_default_device_pinned_mem_limit " + world_.uuid(0) + " 16G");
  ProbeCliOptions options = quick();
  options.probe.find_limit = true;
  options.probe.allocate = {gib(1), gib(20)};
  const Ended probe = run(options, {{"CUDA_MPS_PIPE_DIRECTORY", world_.pipe()}});
  ASSERT_EQ(probe.status, 0) << probe.err;
  const Json json = probe.json();
  EXPECT_TRUE(json["mps"]["connected"]) << probe.out;
  EXPECT_EQ(json["sms"]["attribute"], 26);
  EXPECT_EQ(json["sms"]["seen"], 26);
  EXPECT_LT(json["memory"]["free"], gib(16).value);
  EXPECT_GT(json["memory"]["free"], gib(15).value);
  EXPECT_GT(json["memory"]["largestAllocation"], gib(15).value);
  EXPECT_LT(json["memory"]["largestAllocation"], gib(16).value);
  EXPECT_TRUE(json["allocations"][0]["granted"]);
  EXPECT_FALSE(json["allocations"][1]["granted"]);
  EXPECT_EQ(json["answers"]["wrong"], 0);
}

TEST_F(Probe, ThatMayNotUseTheGpuSaysWhyAndWhatToDo) {
  world_.node()->set_compute_mode(0, 2);
  world_.node()->set_compute_mode(1, 2);
  const Ended probe = run(quick(), {{"CUDA_MPS_PIPE_DIRECTORY", world_.dir() + "/nothing"}});
  EXPECT_EQ(probe.status, 1);
  EXPECT_THAT(probe.err, HasSubstr("CUDA_ERROR_"));
  EXPECT_THAT(probe.err, HasSubstr("; "));
  EXPECT_EQ(probe.out, "");
}

TEST_F(Probe, HoldsUntilItIsAskedToEnd) {
  ProbeCliOptions options = quick();
  options.hold = true;
  options.probe.allocate = {gib(2)};
  const std::string out = world_.dir() + "/held";
  ASSERT_EQ(::mkfifo(out.c_str(), 0600), 0);
  const pid_t child = start(options, {}, out, world_.dir() + "/err");
  std::ifstream report(out);
  std::string line;  // one line is the report, and then the probe holds
  ASSERT_TRUE(std::getline(report, line));
  EXPECT_TRUE(Json::parse(line, nullptr, false)["allocations"][0]["granted"]);
  EXPECT_GE(world_.node()->memory_used(0), gib(2).value);
  ::kill(child, SIGTERM);
  EXPECT_EQ(sim::wait_status(child), 0) << "an orderly end";
}

TEST_F(Probe, EndsWithTheNameOfTheStageThatHangs) {
  world_.start_daemon();
  // A daemon that is stopped takes connections and never answers.
  ::kill(world_.daemon().pid(), SIGSTOP);
  ProbeCliOptions options = quick();
  options.deadline = std::chrono::seconds(2);
  const Ended probe = run(options, {{"CUDA_MPS_PIPE_DIRECTORY", world_.pipe()}});
  ::kill(world_.daemon().pid(), SIGCONT);
  EXPECT_EQ(probe.status, 1);
  EXPECT_THAT(probe.err, HasSubstr("no answer from the driver within 2000 ms"));
}

}  // namespace
}  // namespace tranche::probe
