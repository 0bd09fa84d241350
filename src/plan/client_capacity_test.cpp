#include "plan/plan_steps.h"

#include <gmock/gmock.h>

#include "make.h"
#include "plan/make_plan_fixture.h"

namespace tranche::plan {
namespace client_capacity_test {

using fixture::problems_of;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

gpu::Inventory one_gpu(gpu::ComputeCapability capability, int cuda) {
  auto inventory = make::gpus(1, {.compute_capability = capability});
  inventory.cuda_driver_version = cuda;
  return inventory;
}

config::Config shared_by(std::uint32_t replicas) {
  auto config = make::shared(config::SharingStrategy::kMps, replicas);
  config.sharing.fail_requests_greater_than_one = true;
  config.sharing.resources[0].place = {"c.yaml", 6, 7};
  return config;
}

// Promise: plan/shares: The client capacity follows architecture and CUDA version.
TEST(ClientCapacity, IsTheDriversByArchitectureAndCudaVersion) {
  EXPECT_EQ(driver_client_capacity({0, 0}, 13000), 16u) << "not known: the least";
  EXPECT_EQ(driver_client_capacity({6, 1}, 12080), 16u);
  EXPECT_EQ(driver_client_capacity({7, 0}, 12080), 48u) << "Volta, which NVIDIA's plugin counts with the older ones";
  EXPECT_EQ(driver_client_capacity({9, 0}, 13000), 48u);
  EXPECT_EQ(driver_client_capacity({9, 0}, 13010), 60u);
  EXPECT_EQ(driver_client_capacity({9, 0}, 0), 48u) << "a driver that does not say";
}

TEST(ClientCapacity, OfAMigDeviceIsItsPartOfTheGpu) {
  EXPECT_EQ(mig_client_capacity(48, 1, 7), 6u);
  EXPECT_EQ(mig_client_capacity(48, 3, 7), 20u);
  EXPECT_EQ(mig_client_capacity(48, 7, 7), 48u);
  EXPECT_EQ(mig_client_capacity(48, 1, 4), 12u) << "an A30 has four slices";
  EXPECT_EQ(mig_client_capacity(60, 1, 0), 8u) << "not recorded: seven";
  EXPECT_EQ(mig_client_capacity(16, 0, 7), 1u);
}

// Promise: plan/shares: More slots than clients are refused with place and remedy.
TEST(ClientCapacity, RefusesReplicasBeyondItWithPlaceAndRemedy) {
  EXPECT_THAT(problems_of(shared_by(48), one_gpu({9, 0}, 13000)), IsEmpty());
  EXPECT_THAT(
      problems_of(shared_by(49), one_gpu({9, 0}, 13000)),
      ElementsAre(
          "c.yaml:6:7: error: sharing.mps.resources[0].replicas: is 49, but MPS serves at most 48 "
          "clients on GPU 0 (GPU-00000000-aaaa-bbbb-cccc-dddddddddddd), an NVIDIA H200 of compute "
          "capability 9.0 with CUDA 13.0; write replicas: 48 or less, or failRequestsGreaterThanOne: false where "
          "containers ask for several of these slots"));
  EXPECT_THAT(problems_of(shared_by(60), one_gpu({9, 0}, 13010)), IsEmpty());
  EXPECT_THAT(problems_of(shared_by(61), one_gpu({9, 0}, 13010)), ElementsAre(HasSubstr("at most 60 clients")));
  auto two = make::gpus(2);
  two.gpus[1].compute_capability = {6, 1};
  EXPECT_THAT(problems_of(shared_by(17), two), ElementsAre(HasSubstr("at most 16 clients on GPU 1")));
  EXPECT_THAT(problems_of(shared_by(16), two), IsEmpty());
}

TEST(ClientCapacity, CountsTheProcessesThatASlotMustHold) {
  config::Config config = shared_by(30);
  config.sharing.processes_per_slot = 2;
  EXPECT_THAT(problems_of(config, one_gpu({9, 0}, 13000)),
              ElementsAre(HasSubstr("is 30, which with processesPerSlot: 2 makes 60 clients, but MPS serves at most 48 "
                                    "clients on GPU 0")));
  EXPECT_THAT(problems_of(config, one_gpu({9, 0}, 13000)),
              ElementsAre(HasSubstr("write replicas: 24 or less, or processesPerSlot: 1 or less")));
  config.sharing.resources[0].replicas = 24;
  EXPECT_THAT(problems_of(config, one_gpu({9, 0}, 13000)), IsEmpty());
  config.sharing.processes_per_slot = 24;
  EXPECT_THAT(problems_of(config, one_gpu({9, 0}, 13000)), ElementsAre(HasSubstr("write replicas: 2 or less")));
  config.sharing.processes_per_slot = 25;
  EXPECT_THAT(problems_of(config, one_gpu({9, 0}, 13000)), ElementsAre(HasSubstr("with sharing.timeSlicing, or")));
}

// Promise: plan/shares: The client capacity follows architecture and CUDA version.
TEST(ClientCapacity, IsWhatTheConfigurationSaysInstead) {
  config::Config config = shared_by(32);
  config.sharing.max_clients = 20;
  EXPECT_THAT(problems_of(config, one_gpu({9, 0}, 13000)),
              ElementsAre(HasSubstr("is 32, but sharing.mps.maxClients allows 20 on GPU 0")));
  config.sharing.max_clients = 64;
  const auto plan = make_plan(config, one_gpu({9, 0}, 13000));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->pools[0].max_clients, 64u);
  EXPECT_THAT(plan->notes,
              Contains(HasSubstr("maxClients: 64 is more than the 48 that this driver is known to serve")));
}

}  // namespace client_capacity_test
}  // namespace tranche::plan
