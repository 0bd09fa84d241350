#include "gpu/health/fault_ledger.h"

#include <gmock/gmock.h>

namespace tranche::gpu {
namespace scope_test {

using testing::ElementsAre;
using testing::HasSubstr;

// GPU-a without MIG; GPU-b with GPU instance 1 split into two compute instances, and instance 5 whole.
Inventory node() {
  Inventory node;
  node.gpus.resize(2);
  node.gpus[0].uuid = "GPU-a";
  node.gpus[1].uuid = "GPU-b";
  node.gpus[1].mig_enabled = true;
  const struct {
    const char* uuid;
    std::uint32_t gi, ci;
  } migs[] = {{"MIG-1", 1, 0}, {"MIG-2", 1, 1}, {"MIG-3", 5, 0}};
  for (const auto& m : migs) {
    auto& mig = node.gpus[1].mig_devices.emplace_back();
    mig.uuid = m.uuid;
    mig.gpu_instance = m.gi;
    mig.compute_instance = m.ci;
  }
  return node;
}

std::vector<std::string> hit(std::string_view uuid, std::uint32_t gi = kNoInstance, std::uint32_t ci = kNoInstance) {
  std::vector<std::string> uuids;
  for (const auto& target : scope_of(node(), uuid, gi, ci).targets) uuids.push_back(target.uuid);
  return uuids;
}

TEST(Scope, WithoutInstancesTheGpuWithAllItsMigDevicesIsMeant) {
  EXPECT_THAT(hit("GPU-a"), ElementsAre("GPU-a"));
  EXPECT_THAT(hit("GPU-b"), ElementsAre("GPU-b"));
}

TEST(Scope, BothInstancesMeanThatMigDeviceAlone) {
  EXPECT_THAT(hit("GPU-b", 1, 1), ElementsAre("MIG-2"));
  EXPECT_THAT(scope_of(node(), "GPU-b", 5, 0).targets, ElementsAre(FaultTarget{"MIG-3", "GPU-b"}));
}

TEST(Scope, TheGpuInstanceAloneMeansAllMigDevicesInIt) {
  EXPECT_THAT(hit("GPU-b", 1), ElementsAre("MIG-1", "MIG-2"));
}

TEST(Scope, InstancesThatNobodyHasMeanNobody) {
  const Scope scope = scope_of(node(), "GPU-b", 9, 0);
  EXPECT_TRUE(scope.targets.empty());
  EXPECT_THAT(scope.unattributed, HasSubstr("GPU instance 9"));
}

TEST(Scope, InstancesOnAGpuWithoutMigMeanTheGpu) {
  EXPECT_THAT(hit("GPU-a", 1, 0), ElementsAre("GPU-a"));
}

TEST(Scope, AMigDeviceIsFoundByItsName) {
  EXPECT_THAT(hit("MIG-3"), ElementsAre("MIG-3"));
}

TEST(Scope, WithoutANameItIsAllOfThem) {
  EXPECT_THAT(hit(""), ElementsAre("GPU-a", "GPU-b"));
  EXPECT_TRUE(scope_of(node(), "", kNoInstance, kNoInstance).guessed);
}

TEST(Scope, ANameThatIsNotOfThisNodeMeansNobodyAndIsQuoted) {
  for (const char* uuid : {"GPU-c", "MIG-9", "MIG-GPU-c/1/0", "rubbish"}) {
    const Scope scope = scope_of(node(), uuid, kNoInstance, kNoInstance);
    EXPECT_TRUE(scope.targets.empty()) << uuid;
    EXPECT_FALSE(scope.guessed);
    EXPECT_THAT(scope.unattributed, HasSubstr(uuid));
  }
}

}  // namespace scope_test
}  // namespace tranche::gpu
