#include "dra/dra_devices.h"

#include <gmock/gmock.h>

#include "dra/partition_fixture.h"
#include "gpu/models/models.h"

namespace tranche::dra {
namespace devices_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

config::Config all() {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  return config;
}

gpu::Inventory gpus(const char* model) {
  return *gpu::inventory_of_model(model);
}

std::vector<std::string> names(const std::vector<Device>& devices) {
  std::vector<std::string> out;
  for (const Device& device : devices) out.push_back(device.name);
  return out;
}

TEST(DraDevices, AreNoneUnlessTheConfigurationOffersThem) {
  EXPECT_EQ(devices_of({}, gpus("2xH200")), Devices{});
}

TEST(DraDevices, AreThreeOfEachGpuUnderTheDriversIndex) {
  auto inventory = gpus("2xH200");
  inventory.gpus[1].index = 5;
  const Devices devices = devices_of(all(), inventory);
  EXPECT_THAT(names(devices.list),
              ElementsAre("gpu-0-shared", "gpu-0", "gpu-0-monitor", "gpu-5-shared", "gpu-5", "gpu-5-monitor"));
  EXPECT_THAT(devices.notes, IsEmpty());
  const Device* shared = find_device(devices.list, "gpu-5-shared");
  ASSERT_NE(shared, nullptr);
  EXPECT_EQ(shared->gpu_uuid, inventory.gpus[1].uuid);
  EXPECT_EQ(shared->memory, inventory.gpus[1].memory);
  EXPECT_EQ(shared->cores_least, 7u) << "8 of 132 SMs";
  EXPECT_EQ(find_device(devices.list, "gpu-1"), nullptr);
}

TEST(DraDevices, SharesDoNotReachIntoTheReserve) {
  config::Config config = all();
  config.sharing.reserve = {config::Reserve::Kind::kSize, gib(1)};
  const auto inventory = gpus("H200");
  const Devices devices = devices_of(config, inventory);
  EXPECT_EQ(find_device(devices.list, "gpu-0-shared")->memory, inventory.gpus[0].memory - gib(1));
  EXPECT_EQ(find_device(devices.list, "gpu-0")->memory, inventory.gpus[0].memory);
}

TEST(DraDevices, OfAListAreTheGpusOfTheListOnly) {
  auto config = all();
  config.dra.devices = config::DraDevices::kListed;
  config.dra.listed = {{"1"}};
  EXPECT_THAT(names(devices_of(config, gpus("2xH200")).list), ElementsAre("gpu-1-shared", "gpu-1", "gpu-1-monitor"));
}

TEST(DraDevices, LeaveOutWhatCannotBeServedAndSayWhy) {
  auto inventory = gpus("4xH200");
  inventory.gpus[0].mig_enabled = true;
  inventory.gpus[1].memory = {};
  inventory.gpus[2].compute_capability = {6, 1};
  inventory.gpus[3].memory = mib(128);
  const Devices devices = devices_of(all(), inventory);
  EXPECT_THAT(names(devices.list),
              ElementsAre("gpu-1", "gpu-1-monitor", "gpu-2", "gpu-2-monitor", "gpu-3", "gpu-3-monitor"));
  EXPECT_THAT(devices.notes, ElementsAre(HasSubstr("GPU 0 (" + inventory.gpus[0].uuid + ") is in MIG mode and has no"),
                                         HasSubstr("does not report its memory"), HasSubstr("compute capability 7.0"),
                                         HasSubstr("128 MiB, is less than the smallest share")));
  inventory.platform = gpu::Platform::kTegra;
  EXPECT_THAT(devices_of(all(), inventory).notes, ElementsAre(HasSubstr("tegra")));
}

gpu::MigDevice mig_device(const std::string& uuid, std::uint32_t gpu_instance, const std::string& profile) {
  gpu::MigDevice mig;
  mig.uuid = uuid;
  mig.gpu_instance = gpu_instance;
  mig.profile = profile;
  mig.memory = gib(16);
  mig.sm_count = 16;
  mig.engines = {1, 1, 0, 1, 0};
  mig.gi_cap = 12;
  mig.ci_cap = 13;
  return mig;
}

TEST(DraDevices, OfAGpuInMigModeAreItsMigDevicesAndNotTheGpu) {
  auto inventory = gpus("2xH200");
  auto& gpu = inventory.gpus[0];
  gpu.mig_enabled = true;
  gpu.mig_devices = {mig_device("MIG-a", 7, "1g.18gb+me"), mig_device("MIG-b", 9, "1g.18gb")};
  gpu.mig_devices[1].ci_cap.reset();
  EXPECT_THAT(devices_of(all(), inventory).list, ::testing::SizeIs(5)) << "NVIDIA's runtime finds the nodes";
  auto config = all();
  config.flags.plugin.pass_device_specs = true;
  const Devices devices = devices_of(config, inventory, {{gpu.uuid, {gpu::Cause::kXid, "XID 79"}}});
  EXPECT_THAT(names(devices.list), ElementsAre("gpu-0-mig-1g18gbme-7-0", "gpu-1-shared", "gpu-1", "gpu-1-monitor"));
  EXPECT_THAT(devices.notes, ElementsAre(HasSubstr("MIG device 0:0 (MIG-b) is left out: the driver's table")));
  const Device& mig = devices.list[0];
  EXPECT_EQ(mig.kind, Kind::kMig);
  EXPECT_EQ(mig.gpu_uuid, "MIG-a");
  EXPECT_EQ(mig.parent_uuid, gpu.uuid);
  EXPECT_EQ(mig.memory, gib(16));
  ASSERT_TRUE(mig.fault) << "of its GPU";
  EXPECT_EQ(mig.fault->cause, gpu::Cause::kXid);
}

config::Config on_demand() {
  auto config = all();
  config.dra.partitions = config::DraPartitions::kOnDemand;
  return config;
}

// Promise: dra/partitions: A GPU in MIG mode is offered by its partitions or by its MIG devices, never by both.
TEST(DraDevices, OnDemandAreTheProfilesOfAGpuAtTheirPlaces) {
  auto inventory = gpus("2xH200");
  auto& gpu = inventory.gpus[0];
  gpu.mig_enabled = true;
  gpu.mig_devices = {mig_device("MIG-a", 7, "1g.18gb")};
  auto partitionable = partitionable_by_model(inventory);
  const gpu::Unhealthy fault{gpu::Cause::kXid, "XID 79"};
  const Devices devices = devices_of(on_demand(), inventory, {{gpu.uuid, fault}}, partitionable);
  EXPECT_THAT(devices.notes, IsEmpty());
  EXPECT_EQ(names(devices.list).front(), "gpu-0-mig-1g18gb-19-6");
  const Device& mig = *find_device(devices.list, "gpu-0-mig-3g71gb-9-4");
  EXPECT_EQ(mig.kind, Kind::kMig);
  EXPECT_EQ(mig.gpu_uuid, gpu.uuid);
  EXPECT_EQ(mig.parent_uuid, gpu.uuid);
  EXPECT_EQ(mig.profile, "3g.71gb");
  EXPECT_EQ(mig.partition->instance, (mig::WholeInstance{9, 3, {4, 4}}));
  EXPECT_EQ(mig.fault, fault);
  EXPECT_EQ(find_device(devices.list, "gpu-0-mig-1g18gb-7-0"), nullptr) << "the MIG device that is there";
  EXPECT_NE(find_device(devices.list, "gpu-1-shared"), nullptr);

  partitionable.gpus[gpu.uuid].foreign = {{9, 3, {4, 4}}};
  const Devices beside = devices_of(on_demand(), inventory, {}, partitionable);
  EXPECT_EQ(names(beside.list), names(devices.list));
  EXPECT_THAT(beside.notes, ElementsAre(HasSubstr("has 1 MIG instances that were not made for claims")));
}

// Promise: dra/partitions: MIG devices that belong to claims are not offered as what is there.
TEST(DraDevices, WhereNothingIsPartitionedOnDemandAreTheMigDevicesOfNoClaim) {
  auto inventory = gpus("H200");
  auto& gpu = inventory.gpus[0];
  gpu.mig_enabled = true;
  gpu.mig_devices = {mig_device("MIG-a", 7, "1g.18gb"), mig_device("MIG-b", 9, "1g.18gb")};
  auto partitionable = partitionable_by_model(inventory);
  partitionable.made = {"MIG-a"};
  EXPECT_THAT(names(devices_of(all(), inventory, {}, partitionable).list), ElementsAre("gpu-0-mig-1g18gb-9-0"));
  partitionable.why_not = "the MIG manager has a configuration";
  const Devices devices = devices_of(on_demand(), inventory, {}, partitionable);
  EXPECT_THAT(names(devices.list), ElementsAre("gpu-0-mig-1g18gb-9-0"));
  EXPECT_THAT(devices.notes, ElementsAre(HasSubstr("not partitioned on demand: the MIG manager has a configuration")));
  partitionable.making = {gpu.uuid};
  EXPECT_THAT(devices_of(all(), inventory, {}, partitionable).list, IsEmpty()) << "one of them is a claim's";
  partitionable.known = false;
  EXPECT_THAT(devices_of(on_demand(), inventory, {}, partitionable).list, IsEmpty());
  EXPECT_THAT(devices_of(on_demand(), inventory, {}, {}).notes, ElementsAre(HasSubstr("lists no MIG profiles")));
}

TEST(DraDevices, OfAFaultyGpuAllCarryTheFault) {
  const auto inventory = gpus("2xH200");
  const gpu::Unhealthy fault{gpu::Cause::kXid, "XID 79"};
  for (const Device& device : devices_of(all(), inventory, {{inventory.gpus[1].uuid, fault}}).list)
    EXPECT_EQ(device.fault, device.index == 1 ? std::optional(fault) : std::nullopt) << device.name;
}

}  // namespace devices_test
}  // namespace tranche::dra
