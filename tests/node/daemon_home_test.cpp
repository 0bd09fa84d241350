// Daemons that outlive `tranche mps` (--daemon-home host): a restart of it is not noticed by a tenant, and only --end
// ends them.
#include <unistd.h>

#include <csignal>

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// This process stands for the host's first, which shows its namespaces to few.
const Strings kOnHost{"--daemon-home",   "host", "--daemon-host-process", std::to_string(::getpid()),
                      "--daemon-cgroup", "none"};

class DaemonsOnTheHost : public NodeBed {
 protected:
  void start_on_host(int gpus, int slots) {
    ASSERT_NO_FATAL_FAILURE(make_node(gpus));
    write("config.yaml", sharing("mps", slots));
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    start_mps(kOnHost);
    start_node();
    ASSERT_TRUE(until_healthy(static_cast<std::uint64_t>(gpus) * static_cast<std::uint64_t>(slots)));
  }
  std::vector<int> daemons() {
    std::vector<int> pids;
    const nlohmann::json mps = until_serving(2);  // outlives the loop over its pools
    for (const auto& pool : mps["pools"]) pids.push_back(pool["daemonPid"]);
    return pids;
  }
  static std::size_t reports(const Program& cuda) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = cuda.out().find("\"event\":\"report\"", at)) != std::string::npos; ++at) ++count;
    return count;
  }
  // The tenant goes on working from here: reports that it would not print after an error.
  void expect_goes_on(Program& cuda) {
    const auto before = reports(cuda);
    EXPECT_TRUE(until([&] { return reports(cuda) >= before + 3; }, "a tenant that goes on")) << cuda.out();
    EXPECT_TRUE(cuda.running());
    EXPECT_THAT(cuda.out(), Not(HasSubstr("\"event\":\"error\"")));
  }
  Program& end_mps() {
    Strings words = kOnHost;
    words.emplace_back("--end");
    return start_mps(words);
  }
};

// Promise: mps/daemon-home: A tenant works on through a restart of `tranche mps`.
TEST_F(DaemonsOnTheHost, RunOnWhenTrancheMpsIsAskedToStopAndServeAgainWithoutATenantNoticing) {
  ASSERT_NO_FATAL_FAILURE(start_on_host(2, 2));
  const auto grant = admitted(kubelet(), "a", 1);
  Program& tenant = start_cuda(grant, {"--hold", "--kernel-ms", "2", "--report-every", "0.02"});
  ASSERT_EQ(attached(tenant)["mps"], true);
  const auto before = daemons();

  stop(*program("mps"), SIGTERM, 0);
  ASSERT_TRUE(until_healthy_of(4, 0)) << "nothing is promised meanwhile";
  for (const int pid : before) EXPECT_TRUE(alive(pid)) << pid;
  EXPECT_THAT(shown_node(), HasSubstr("mode exclusive-process")) << "nothing may run beside MPS in the gap";
  expect_goes_on(tenant);

  start_mps(kOnHost);
  ASSERT_TRUE(until_healthy(4));
  EXPECT_EQ(daemons(), before);
  expect_goes_on(tenant);
  EXPECT_EQ(attached(start_cuda(grant, {}))["mps"], true) << "and newcomers are served";
}

// Promise: mps/daemon-home: `--end` ends the daemons with and without a running instance.
TEST_F(DaemonsOnTheHost, EndForGoodWithTheRunningInstance) {
  ASSERT_NO_FATAL_FAILURE(start_on_host(2, 2));
  const auto before = daemons();
  Program& first = *program("mps");
  Program& end = start_mps({"--end"});
  EXPECT_EQ(finish(end), 0) << end.err();
  EXPECT_THAT(end.out(), HasSubstr("ended by tranche mps (pid " + std::to_string(first.pid()) + ")"));
  EXPECT_EQ(finish(first), 0);
  for (const int pid : before) EXPECT_FALSE(alive(pid)) << pid;
  EXPECT_THAT(shown_node(), Not(HasSubstr("exclusive")));
}

// Promise: mps/daemon-home: `--end` ends the daemons with and without a running instance.
TEST_F(DaemonsOnTheHost, EndForGoodWithoutAnInstance) {
  ASSERT_NO_FATAL_FAILURE(start_on_host(2, 2));
  const auto before = daemons();
  stop(*program("mps"), SIGTERM, 0);
  for (const int pid : before) EXPECT_TRUE(alive(pid)) << pid;
  Program& end = end_mps();
  EXPECT_EQ(finish(end), 0) << end.err();
  EXPECT_THAT(end.out(), HasSubstr(": daemon ended"));
  for (const int pid : before) EXPECT_FALSE(alive(pid)) << pid;
  EXPECT_THAT(shown_node(), Not(HasSubstr("exclusive")));
  Program& again = end_mps();
  EXPECT_EQ(finish(again), 0) << again.err();
  EXPECT_THAT(again.out(), HasSubstr("no daemon runs under"));
}

}  // namespace
}  // namespace tranche::e2e
