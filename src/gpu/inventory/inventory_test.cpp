#include "gpu/inventory/inventory.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "make.h"

namespace tranche::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Inventory two_gpus() {
  Inventory inventory = make::gpus(2);
  for (auto& gpu : inventory.gpus) {
    gpu.pci_bus_id = "00000000:00:06.0";
    gpu.numa_node = gpu.index;
    gpu.pcie_root = "pci0000:" + std::to_string(10 + gpu.index);
  }
  MigDevice mig{.uuid = "MIG-1", .slot = 3, .profile = "1g.18gb+me", .memory = mib(16384), .sm_count = 16};
  mig.engines = {1, 1, 0, 1, 1};
  mig.nominal_memory = mib(16000);
  mig.gi_cap = 12;
  mig.ci_cap = 13;
  inventory.gpus[1].mig_devices = {mig};
  inventory.links = {{0, 1, 30, 18}};
  inventory.unreadable = {"GPU 2 did not answer"};
  inventory.doubts = {"GPU 1 would not say how much memory it has"};
  return inventory;
}

TEST(InventoryTest, SmsFollowFromCoresAndArchitecture) {
  EXPECT_EQ(sm_count_from_cores(16896, {9, 0}), 132u);
  EXPECT_EQ(sm_count_from_cores(2560, {7, 5}), 40u);
  EXPECT_EQ(sm_count_from_cores(6912, {8, 0}), 108u);
  EXPECT_EQ(sm_count_from_cores(18176, {8, 9}), 142u);
  EXPECT_EQ(sm_count_from_cores(1000, {99, 0}), 0u);
}

TEST(InventoryTest, FindsAGpuByUuidOnly) {
  const Inventory inventory = two_gpus();
  EXPECT_EQ(find_gpu(inventory, inventory.gpus[1].uuid), &inventory.gpus[1]);
  EXPECT_EQ(find_gpu(inventory, "0"), nullptr);
}

TEST(InventoryJson, ReadsBackWhatItWrites) {
  for (const Platform platform : {Platform::kNvml, Platform::kWsl, Platform::kTegra}) {
    Inventory inventory = two_gpus();
    inventory.platform = platform;
    const auto again = parse_inventory(to_json(inventory).dump(), "inv.json");
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, inventory);
  }
}

TEST(InventoryJson, ARecordingWithoutAPlatformIsOfAnOrdinaryNode) {
  auto json = to_json(two_gpus());
  json.erase("platform");
  json.erase("doubts");
  const auto read = parse_inventory(json.dump(), "inv.json");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->platform, Platform::kNvml);
}

TEST(InventoryJson, NamesTheFieldThatIsWrong) {
  struct Row {
    const char* change;
    const char* says;
  };
  for (const Row& row :
       {Row{R"([{"op":"replace","path":"/gpus/1/memoryBytes","value":-1}])", "gpus[1].memoryBytes is out of range"},
        Row{R"([{"op":"replace","path":"/gpus/0/index","value":4294967296}])", "gpus[0].index is out of range"},
        Row{R"([{"op":"remove","path":"/gpus/0/uuid"}])", "gpus[0].uuid is missing"},
        Row{R"([{"op":"replace","path":"/gpus/0/name","value":7}])", "gpus[0].name must be text"},
        Row{R"([{"op":"replace","path":"/gpus/0/computeCapability","value":"9"}])", "must be written like"},
        Row{R"([{"op":"replace","path":"/gpus/0/computeMode","value":"x"}])", "computeMode must be DEFAULT"},
        Row{R"([{"op":"replace","path":"/links/0/b","value":2}])", "links[0].b must be"},
        Row{R"([{"op":"replace","path":"/gpus","value":{}}])", "gpus must be a list"},
        Row{R"([{"op":"replace","path":"/platform","value":"mac"}])", "platform must be nvml, wsl or tegra"},
        Row{R"([{"op":"replace","path":"/doubts/0","value":1}])", "doubts[0] must be text"},
        Row{R"([{"op":"replace","path":"/gpus/1/migDevices/0/engines/copy","value":1.5}])",
            "gpus[1].migDevices[0].engines.copy must be a whole number"},
        Row{R"([{"op":"copy","from":"/gpus/0","path":"/gpus/-"}])", "twice"}}) {
    const auto changed = to_json(two_gpus()).patch(nlohmann::ordered_json::parse(row.change));
    const auto read = parse_inventory(changed.dump(), "inv.json");
    ASSERT_FALSE(read) << row.change;
    EXPECT_THAT(read.error().what, HasSubstr(row.says));
    EXPECT_EQ(read.error().where, "inv.json");
    EXPECT_EQ(read.error().kind, Kind::kInvalid);
  }
  EXPECT_FALSE(parse_inventory("", "x"));
  EXPECT_FALSE(parse_inventory("[]", "x"));
}

const auto kNonePulled = [](const Gpu&) { return false; };

TEST(KeepMissing, AGpuThatHasLeftIsNotKept) {
  const Inventory before = two_gpus();
  Inventory scanned = before;
  scanned.gpus.pop_back();
  scanned.links.clear();
  const Kept kept = keep_missing(before, scanned, [&](const Gpu& gpu) { return gpu.uuid == before.gpus[1].uuid; });
  EXPECT_THAT(kept.missing, IsEmpty());
  EXPECT_EQ(kept.inventory, scanned);
}

TEST(KeepMissing, ASilentGpuKeepsItsPlaceAndItsLinks) {
  Inventory before;
  for (std::uint32_t i = 0; i < 3; ++i) {
    Gpu gpu;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.index = i;
    before.gpus.push_back(gpu);
  }
  before.links = {{0, 1, 10, 4}, {0, 2, 50, 0}, {1, 2, 40, 0}};
  Inventory scanned = before;
  scanned.gpus.erase(scanned.gpus.begin() + 1);  // GPU-1 stopped answering, so GPU-2 moved to position 1
  scanned.links = {{0, 1, 30, 0}};
  const Kept kept = keep_missing(before, scanned, kNonePulled);
  EXPECT_THAT(kept.missing, testing::ElementsAre("GPU-1"));
  EXPECT_EQ(kept.inventory.gpus, before.gpus);
  EXPECT_EQ(kept.inventory.links, (std::vector<GpuLink>{{0, 1, 10, 4}, {0, 2, 30, 0}, {1, 2, 40, 0}}));
  EXPECT_EQ(keep_missing(before, before, kNonePulled).inventory, before);
  EXPECT_EQ(keep_missing({}, scanned, kNonePulled).inventory, scanned);
}

TEST(KeepMissing, NothingIsKeptWhenThePlatformBecameAnotherOne) {
  Inventory before = two_gpus();
  Inventory scanned;
  scanned.platform = Platform::kTegra;
  const Kept kept = keep_missing(before, scanned, kNonePulled);
  EXPECT_THAT(kept.missing, IsEmpty());
  EXPECT_EQ(kept.inventory, scanned);
}

TEST(InventoryCompare, EqualScansHaveNoChanges) {
  EXPECT_THAT(changes(two_gpus(), two_gpus()), IsEmpty());
}

TEST(InventoryCompare, SaysWhatChanged) {
  const Inventory before = two_gpus();
  Inventory after = before;
  after.gpus[1].mig_devices.clear();
  after.gpus[1].compute_mode = ComputeMode::kExclusiveProcess;
  after.gpus[0].uuid = "GPU-new";
  after.driver_version = "590.1";
  EXPECT_THAT(changes(before, after),
              ElementsAre("the driver is 590.1 now, and was 580.159.04", HasSubstr("GPU 0 (GPU-00000000"),
                          "GPU 0 (GPU-new), NVIDIA H200, is new", HasSubstr("1g.18gb+me before, none now"),
                          HasSubstr("EXCLUSIVE_PROCESS, and was in DEFAULT")));
}

TEST(InventoryCompare, NoDifferenceIsSilent) {
  const Inventory before = two_gpus();
  Inventory after = before;
  after.links[0].nvlinks = 0;
  EXPECT_THAT(changes(before, after), ElementsAre("the links between GPUs are different"));
  after = before;
  after.unreadable.clear();
  EXPECT_FALSE(changes(before, after).empty());
  after = before;
  after.gpus[0].numa_node = 7;
  EXPECT_FALSE(changes(before, after).empty());
  after = before;
  after.platform = Platform::kWsl;
  EXPECT_THAT(changes(before, after), ElementsAre("the platform is wsl now, and was nvml"));
  after = before;
  after.doubts.push_back("GPU 0 would not say its minor number");
  EXPECT_THAT(changes(before, after), ElementsAre(HasSubstr("would not say its minor number")));
  after = before;
  after.doubts.clear();
  EXPECT_FALSE(changes(before, after).empty());
}

// Promise: driver/scan: A PCI address in sysfs is lower case with a domain of four digits.
TEST(Sysfs, AddressesAreLowerCaseWithAFourDigitDomain) {
  EXPECT_EQ(sysfs_address("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(sysfs_address("0001:AF:00.0"), "0001:af:00.0");
  EXPECT_EQ(sysfs_address("00010000:E1:00.0"), "10000:e1:00.0") << "a domain behind a volume controller";
  EXPECT_EQ(sysfs_address("0000:3b:00.0"), "0000:3b:00.0");
  EXPECT_EQ(sysfs_address("............"), "");
  EXPECT_EQ(sysfs_address("00000000:3B:00"), "");
  EXPECT_EQ(sysfs_address(""), "");
  EXPECT_EQ(sysfs_address("00000000:../../x"), "");
}

}  // namespace
}  // namespace tranche::gpu
