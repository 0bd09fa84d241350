#include "dra/devices.h"

#include <gmock/gmock.h>

#include "gpu/inventory/models.h"

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

inventory::Inventory gpus(const char* model) {
  return *inventory::inventory_of_model(model);
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

TEST(DraDevices, LeaveOutWhatCannotBeServedAndSayWhy) {
  auto inventory = gpus("4xH200");
  inventory.gpus[0].mig_enabled = true;
  inventory.gpus[1].memory = {};
  inventory.gpus[2].compute_capability = {6, 1};
  inventory.gpus[3].memory = mib(128);
  const Devices devices = devices_of(all(), inventory);
  EXPECT_THAT(names(devices.list),
              ElementsAre("gpu-1", "gpu-1-monitor", "gpu-2", "gpu-2-monitor", "gpu-3", "gpu-3-monitor"));
  EXPECT_THAT(devices.notes, ElementsAre(HasSubstr("GPU 0 (" + inventory.gpus[0].uuid + ") is in MIG mode"),
                                         HasSubstr("does not report its memory"), HasSubstr("compute capability 7.0"),
                                         HasSubstr("128 MiB, is less than the smallest share")));
  inventory.platform = inventory::Platform::kTegra;
  EXPECT_THAT(devices_of(all(), inventory).notes, ElementsAre(HasSubstr("tegra")));
}

TEST(DraDevices, OfAFaultyGpuAllCarryTheFault) {
  const auto inventory = gpus("2xH200");
  const health::Unhealthy fault{health::Cause::kXid, "XID 79"};
  for (const Device& device : devices_of(all(), inventory, {{inventory.gpus[1].uuid, fault}}).list)
    EXPECT_EQ(device.fault, device.index == 1 ? std::optional(fault) : std::nullopt) << device.name;
}

}  // namespace devices_test
}  // namespace tranche::dra
