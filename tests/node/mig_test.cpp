// MPS on MIG devices, from the configuration to a CUDA process: a pool for each device, limits by its UUID.
#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSmall = "nvidia.com/mig-1g.18gb";

class MigPool : public NodeBed {
 protected:
  void start_on_mig(int replicas) {
    ASSERT_NO_FATAL_FAILURE(make_node(1));
    sim_node({"gpu", "0", "mig", "3g.71gb", "1g.18gb", "1g.18gb"});
    write("config.yaml",
          "version: v1\nflags:\n  migStrategy: mixed\nsharing:\n  mps:\n    migDevices: true\n    resources:\n"
          "    - name: " +
              std::string(kSmall) + "\n      replicas: " + std::to_string(replicas) + "\n");
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    start_mps();
    start_node();
  }
  sim::ContainerGrant admit(const std::string& pod) {
    auto admission = kubelet().admit(sim::one_container_pod(pod, kSmall, 1));
    EXPECT_TRUE(admission.admitted) << admission.message;
    return admission.containers.empty() ? sim::ContainerGrant{} : admission.containers.front();
  }
};

// Promise: mps/mig: A MIG device has its own pool with limits by its UUID.
TEST_F(MigPool, ServesItsDeviceWithLimitsByItsUuid) {
  ASSERT_NO_FATAL_FAILURE(start_on_mig(4));
  const auto status = until_serving(2);
  for (const auto& pool : status["pools"]) {
    EXPECT_THAT(pool["id"].get<std::string>(), ::testing::StartsWith("mig-"));
    EXPECT_THAT(pool["devices"][0].get<std::string>(), ::testing::StartsWith("MIG-"));
    EXPECT_EQ(pool["limits"][0]["uuid"], pool["devices"][0]);
    EXPECT_NE(pool["limits"][0]["readBackMemory"], "");
    EXPECT_EQ(pool["clients"]["most"], 6);
  }
  ASSERT_TRUE(kubelet().wait_for_devices(
      kSmall, [](const sim::ResourceView& v) { return v.healthy() == 8 && v.capacity == 8; }, kSoon));

  const auto grant = admit("a");
  const Json limits = [&] {
    for (const auto& pool : status["pools"])
      if (pool["devices"][0] == grant.envs.at("NVIDIA_VISIBLE_DEVICES")) return pool["limits"][0];
    return Json();
  }();
  ASSERT_TRUE(limits.is_object()) << "the grant names the MIG device of a pool";
  EXPECT_FALSE(grant.envs.contains("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  const auto line = attached(start_cuda(grant, {"--hold"}));
  EXPECT_EQ(line["mps"], true) << line;
  EXPECT_EQ(line["gpu"], grant.envs.at("NVIDIA_VISIBLE_DEVICES"));
  EXPECT_EQ(line["sms"], 8) << "25 % of the profile's 16 SMs, and 8 are the fewest";
  const auto share = limits["memoryMiB"].get<std::uint64_t>();
  EXPECT_LT(line["free"].get<std::uint64_t>(), share << 20);
  EXPECT_NE(finish(start_cuda(grant, {"--allocate", std::to_string(share + 1) + "MiB"})), 0)
      << "the daemon's limit holds without the client's variable";
  until_mps(
      [](const Json& s) { return pool_of(s, 0)["clients"]["live"] == 1 || pool_of(s, 1)["clients"]["live"] == 1; });
}

TEST_F(MigPool, LeavesTheGpusComputeModeAsItWas) {
  ASSERT_NO_FATAL_FAILURE(start_on_mig(2));
  until_serving(2);
  EXPECT_THAT(shown_node(), ::testing::Not(HasSubstr("exclusive")));
}

}  // namespace
}  // namespace tranche::e2e
