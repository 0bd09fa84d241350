#include "node/reports.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace in_force_test {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kDeaths = "a client's death hurts no neighbour";

Snapshot node_with(std::vector<std::string> pools) {
  Snapshot s;
  s.pools.connected = true;
  for (const auto& id : pools) {
    plan::PlannedPool planned;
    planned.id = id;
    s.plan.pools.push_back(planned);
    mps::PoolReport report;
    report.id = id;
    report.state = "serving";
    report.endpoint = "relay";
    report.proof.state = "proven";
    s.pools.pools[id] = report;
  }
  s.guard.interval = std::chrono::milliseconds(100);
  s.guard.policies["nvidia.com/gpu.shared"] = config::GuardMemory::kTerminateNewest;
  s.cluster.state = "watching";
  return s;
}

view::Promise row(const Snapshot& s, std::string_view promise) {
  for (const auto& each : in_force(s))
    if (each.what == promise) return each;
  ADD_FAILURE() << "no row " << promise;
  return {};
}

TEST(InForce, IsAboutNothingWithoutMps) {
  EXPECT_THAT(in_force(Snapshot{}), IsEmpty());
}

// Promise: status: The status shows what is enforced and what is not.
TEST(InForce, AWholeNodeKeepsWhatItCan) {
  const auto s = node_with({"gpu-1", "gpu-2"});
  for (const auto& each : in_force(s)) {
    EXPECT_EQ(each.state, "yes") << each.what << ": " << each.why;
    EXPECT_EQ(each.why, "") << each.what;
  }
}

TEST(InForce, AClientThatIsNotHeldIsNamed) {
  auto s = node_with({"gpu-1"});
  s.pools.pools["gpu-1"].endpoints = {{.grant = "g", .clients = {7}, .protection = {{7, "no", "no right"}}}};
  EXPECT_EQ(row(s, kDeaths).state, "no");
  EXPECT_EQ(row(s, kDeaths).why, "gpu-1: clients that are not held: 1 (no right)");
}

TEST(InForce, AClientThatIsNotCompletelyHeldYetIsCounted) {
  auto s = node_with({"gpu-1"});
  s.pools.pools["gpu-1"].endpoints = {
      {.grant = "g", .clients = {7, 8}, .protection = {{7, "yes", ""}, {8, "starting", "soon"}}}};
  EXPECT_EQ(row(s, kDeaths).state, "partly");
  EXPECT_EQ(row(s, kDeaths).why, "clients that are not completely held yet: 1");
}

TEST(InForce, AKeeperWithTooFewDescriptorsSaysHowManyClientsItCanHold) {
  auto s = node_with({"gpu-1", "gpu-2"});
  s.pools.keeper_files = 96 * 28;
  EXPECT_EQ(row(s, kDeaths).state, "yes");
  s.pools.keeper_files = 1024;
  EXPECT_EQ(row(s, kDeaths).state, "partly");
  EXPECT_THAT(row(s, kDeaths).why, HasSubstr("1024 descriptors, which is enough for about 36 of 96 clients"));
}

TEST(InForce, ContainersOfSeveralGpusAreCountedSinceNcclIsNotCovered) {
  auto s = node_with({"gpu-1"});
  s.shares.own() = {{{"a", "GPU-1"}, {.pool = "gpu-1", .resource = "r", .memory = {}}},
                    {{"b", "GPU-1"}, {.pool = "gpu-1", .resource = "r", .memory = {}, .tenant = "b"}},
                    {{"w", "GPU-1"}, {.pool = "", .resource = "r", .memory = {}}},
                    {{"w", "GPU-2"}, {.pool = "", .resource = "r", .memory = {}}}};
  EXPECT_EQ(row(s, kDeaths).state, "yes");
  s.shares.own()[{"c", "GPU-2"}] = {.pool = "gpu-1", .resource = "r", .memory = {}, .tenant = "b"};
  s.shares.own()[{"a", "GPU-2"}] = {.pool = "gpu-1", .resource = "r", .memory = {}};
  EXPECT_EQ(row(s, kDeaths).state, "partly");
  EXPECT_THAT(row(s, kDeaths).why, HasSubstr("containers with shares of several GPUs: 2; if a rank dies"));
}

TEST(InForce, WhereDeathsWereNotMeasuredItIsSaid) {
  auto s = node_with({"gpu-1"});
  s.inventory.emplace();
  s.inventory->driver_version = "580.159.04";
  s.inventory->gpus.emplace_back().name = "NVIDIA H100 80GB HBM3";
  EXPECT_EQ(row(s, kDeaths).state, "yes");
  s.inventory->driver_version = "570.86.15";
  EXPECT_EQ(row(s, kDeaths).state, "partly");
  EXPECT_THAT(row(s, kDeaths).why, HasSubstr("not with 570.86.15"));
  s.inventory->driver_version = "530.30.02";
  EXPECT_EQ(row(s, kDeaths).state, "no");
  s.inventory->driver_version = "580.159.04";
  s.inventory->gpus.emplace_back().name = "NVIDIA L4";
  EXPECT_THAT(row(s, kDeaths).why, HasSubstr("not on NVIDIA L4"));
}

TEST(InForce, APoolThatDoesNotServeIsNamed) {
  auto s = node_with({"gpu-1", "gpu-2"});
  s.pools.pools["gpu-2"].state = "backing-off";
  s.pools.pools["gpu-2"].reason = "was killed by signal 9";
  EXPECT_EQ(row(s, "memory and SMs of a client").state, "partly");
  EXPECT_EQ(row(s, "memory and SMs of a client").why, "gpu-2: backing-off, was killed by signal 9");
  s.pools.pools.clear();
  EXPECT_EQ(row(s, "memory and SMs of a client").state, "no") << "no client is reported";
}

TEST(InForce, ALinkLetsTenantsCommand) {
  auto s = node_with({"gpu-1"});
  s.pools.pools["gpu-1"].endpoint = "link";
  s.pools.pools["gpu-1"].endpoint_reason = "sharing.mps.endpoint is link";
  EXPECT_EQ(row(s, "no tenant commands MPS").state, "no");
  EXPECT_EQ(row(s, "no tenant commands MPS").why, "gpu-1: the endpoint is a link (sharing.mps.endpoint is link)");
}

TEST(InForce, AModeThatIsLeftAloneLetsProcessesAvoidMps) {
  auto s = node_with({"gpu-1"});
  s.plan.pools[0].compute_mode = config::ComputeModePolicy::kLeave;
  EXPECT_EQ(row(s, "nothing runs beside MPS").state, "no");
  EXPECT_THAT(row(s, "nothing runs beside MPS").by, HasSubstr("only names"));
  s.guard.foreign_processes_policy = config::GuardForeignProcesses::kTerminate;
  EXPECT_EQ(row(s, "nothing runs beside MPS").state, "partly");
  s.guard.off = "nothing is shared by MPS";
  EXPECT_EQ(row(s, "nothing runs beside MPS").state, "no");
}

TEST(InForce, AGuardThatOnlyLooksIsSaidToOnlyLook) {
  auto s = node_with({"gpu-1"});
  s.guard.policies["nvidia.com/gpu.shared"] = config::GuardMemory::kObserve;
  EXPECT_EQ(row(s, "memory of a container").state, "no");
  s.guard.policies["nvidia.com/gpu"] = config::GuardMemory::kTerminateAll;
  EXPECT_EQ(row(s, "memory of a container").state, "partly");
  s.guard.policies.erase("nvidia.com/gpu.shared");
  s.guard.not_in_force = {"samples are late"};
  EXPECT_EQ(row(s, "memory of a container").why, "samples are late");
  s.guard.off = "no driver";
  EXPECT_EQ(row(s, "memory of a container").state, "no");
}

TEST(InForce, AProofThatFailedOrIsMissingIsSaid) {
  auto s = node_with({"gpu-1"});
  s.pools.pools["gpu-1"].proof.state = "failed";
  s.pools.pools["gpu-1"].proof.reason = "no answer in 10 s";
  EXPECT_EQ(row(s, "pools serve").why, "gpu-1: proof failed, no answer in 10 s");
  s.pools.pools["gpu-1"].proof.state = "";
  EXPECT_EQ(row(s, "pools serve").state, "no");
}

TEST(InForce, ThroughALinkALimitOfSeveralSlotsStandsInTheEnvironmentOnly) {
  auto s = node_with({"gpu-1", "gpu-2"});
  EXPECT_EQ(row(s, "a client has its own grant's limits").state, "yes");
  s.pools.pools["gpu-2"].endpoint = "link";
  EXPECT_EQ(row(s, "a client has its own grant's limits").state, "partly");
  EXPECT_THAT(row(s, "a client has its own grant's limits").why, HasSubstr("gpu-2: the endpoint is a link"));
}

}  // namespace in_force_test
}  // namespace tranche::node
