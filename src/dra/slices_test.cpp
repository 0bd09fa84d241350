#include "dra/slices.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "dra/partition_fixture.h"
#include "gpu/models/models.h"

namespace tranche::dra {
namespace slices_test {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Pool kPool{"gpu.tranche.io", "n1"};

std::vector<Device> devices(const char* model, const std::map<std::string, gpu::Unhealthy>& faults = {}) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  return devices_of(config, *gpu::inventory_of_model(model), faults).list;
}

std::vector<Json> specs(const Slices& slices) {
  std::vector<Json> out;
  for (const Slice& slice : slices.list) out.push_back(json_of(slice.spec));
  return out;
}

std::vector<std::string> device_names(const Json& spec) {
  std::vector<std::string> out;
  for (const Json& device : spec["devices"]) out.push_back(device["name"]);
  return out;
}

TEST(DraSlices, AreTheDevicesAndTheirCountersApart) {
  const Slices slices = slices_of(devices("2xH200"), kPool);
  EXPECT_THAT(slices.notes, testing::IsEmpty());
  ASSERT_EQ(slices.list.size(), 2u);
  EXPECT_EQ(slices.list[0].name, "00000-gpu.tranche.io-n1");
  const auto found = specs(slices);
  for (const Json& spec : found) {
    EXPECT_EQ(spec["driver"], "gpu.tranche.io");
    EXPECT_EQ(spec["nodeName"], "n1");
    EXPECT_EQ(spec["pool"], (Json{{"name", "n1"}, {"resourceSliceCount", 2}}));
  }
  EXPECT_FALSE(found[0].contains("sharedCounters"));
  EXPECT_FALSE(found[1].contains("devices"));
  EXPECT_EQ(found[1]["sharedCounters"][1],
            (Json{{"name", "gpu-1-counter-set"}, {"counters", {{"gpu", {{"value", "1"}}}}}}));
}

// Promise: dra/slices: Shares fill the first GPU and whole claims take the last: devices are listed in that order.
TEST(DraSlices, ListSharesFromTheFirstGpuAndWholeOnesFromTheLast) {
  EXPECT_THAT(device_names(specs(slices_of(devices("3xH200"), kPool))[0]),
              ElementsAre("gpu-0-shared", "gpu-1-shared", "gpu-2-shared", "gpu-2", "gpu-1", "gpu-0", "gpu-0-monitor",
                          "gpu-1-monitor", "gpu-2-monitor"));
}

TEST(DraSlices, OfASharedDeviceCanBeCutByTheStepsOfTheHardware) {
  const Json shared = specs(slices_of(devices("H200"), kPool))[0]["devices"][0];
  EXPECT_EQ(shared["allowMultipleAllocations"], true);
  EXPECT_EQ(shared["capacity"]["memory"], json_of(R"({"value":"143771Mi","requestPolicy":{"default":"1Gi",
    "validRange":{"min":"256Mi","step":"1Mi"}}})"));
  EXPECT_EQ(shared["capacity"]["cores"],
            json_of(R"({"value":"100","requestPolicy":{"default":"7","validRange":{"min":"7","step":"1"}}})"));
}

// Promise: dra/slices: The whole and the shared device of a GPU draw on one counter, so that one excludes the other.
TEST(DraSlices, LetTheWholeAndTheSharedDeviceOfAGpuExcludeEachOther) {
  const Json all = specs(slices_of(devices("H200"), kPool))[0]["devices"];
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["consumesCounters"], all[1]["consumesCounters"]);
  EXPECT_EQ(all[1]["consumesCounters"],
            json_of(R"([{"counterSet":"gpu-0-counter-set","counters":{"gpu":{"value":"1"}}}])"));
  EXPECT_FALSE(all[1].contains("allowMultipleAllocations"));
  EXPECT_FALSE(all[2].contains("consumesCounters")) << "a monitor device takes nothing";
  EXPECT_FALSE(all[2].contains("capacity"));
}

std::vector<Device> partitions(const char* model) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  config.dra.partitions = config::DraPartitions::kOnDemand;
  auto inventory = *gpu::inventory_of_model(model);
  for (std::size_t i = 0; i + 1 < inventory.gpus.size(); ++i) inventory.gpus[i].mig_enabled = true;
  return devices_of(config, inventory, {}, partitionable_by_model(inventory)).list;
}

// Promise: dra/partitions: Partitions of a GPU draw on one set of counters, in a slice of counters only.
TEST(DraSlices, OfPartitionsDrawOnTheCountersOfTheirGpu) {
  const auto slices = specs(slices_of(partitions("2xH200"), kPool));
  ASSERT_EQ(slices.size(), 2u) << "the second GPU is not in MIG mode";
  Json three;
  for (const Json& device : slices[0]["devices"])
    if (device["name"] == "gpu-0-mig-3g71gb-9-0") three = device;
  EXPECT_EQ(three["consumesCounters"], json_of(R"([{"counterSet":"gpu-0-counter-set","counters":{
    "memory":{"value":"71424Mi"},"multiprocessors":{"value":"60"},"copy-engines":{"value":"3"},"decoders":{"value":"3"},
    "jpeg-engines":{"value":"3"},"memory-slice-0":{"value":"1"},"memory-slice-1":{"value":"1"},
    "memory-slice-2":{"value":"1"},"memory-slice-3":{"value":"1"}}}])"));
  EXPECT_EQ(three["capacity"]["memory"]["value"], "71424Mi");
  EXPECT_EQ(three["attributes"]["profile"]["string"], "3g.71gb");
  EXPECT_FALSE(three["attributes"].contains("uuid")) << "there is no MIG device yet";
  EXPECT_FALSE(three.contains("allowMultipleAllocations"));
  const Json& sets = slices[1]["sharedCounters"];
  ASSERT_EQ(sets.size(), 2u);
  std::map<std::string, Json> counters;
  for (const Json& set : sets) counters[set["name"]] = set["counters"];
  EXPECT_EQ(counters["gpu-0-counter-set"]["multiprocessors"]["value"], "132");
  EXPECT_EQ(counters["gpu-0-counter-set"]["memory-slice-7"]["value"], "1");
  EXPECT_EQ(counters["gpu-1-counter-set"], json_of(R"({"gpu":{"value":"1"}})"));
  for (const Json& device : slices[0]["devices"]) {
    if (!device.contains("consumesCounters")) continue;
    const Json& draws = device["consumesCounters"][0];
    for (const auto& [counter, value] : draws["counters"].items())
      EXPECT_TRUE(counters[draws["counterSet"]].contains(counter)) << counter;
  }
}

// Promise: dra/partitions: No slice has more devices or counter sets than the API allows.
TEST(DraSlices, OfPartitionsOfManyGpusKeepTheBounds) {
  const auto slices = specs(slices_of(partitions("12xH200"), kPool));
  std::size_t devices = 0, sets = 0;
  for (const Json& spec : slices) {
    EXPECT_EQ(spec["pool"]["resourceSliceCount"], slices.size());
    EXPECT_LE(spec.value("devices", Json::array()).size(), 64u);
    EXPECT_LE(spec.value("sharedCounters", Json::array()).size(), 8u);
    devices += spec.value("devices", Json::array()).size();
    sets += spec.value("sharedCounters", Json::array()).size();
  }
  EXPECT_EQ(devices, 11 * 25u + 3);
  EXPECT_EQ(sets, 12u);
}

// Promise: dra/partitions: A server that drops counters gets no partitions.
TEST(DraSlices, WithoutCountersHaveNoPartitions) {
  const Slices slices = slices_of(partitions("2xH200"), {"gpu.tranche.io", "n1", {true, false, true}});
  EXPECT_THAT(device_names(specs(slices)[0]), ElementsAre("gpu-1", "gpu-1-monitor"));
  EXPECT_THAT(slices.notes, ::testing::Contains(HasSubstr("MIG partitions on demand are not published")));
}

TEST(DraSlices, HaveNvidiasAttributes) {
  auto list = devices("H200");
  list[0].pci_bus_id = "00000000:3B:00.0";
  list[0].numa_node = 1;
  list[0].pcie_root = "pci0000:3a";
  Json attributes = specs(slices_of(list, kPool))[0]["devices"][0]["attributes"];
  const Json own = json_of(R"({"type":{"string":"shared"},"productName":{"string":"NVIDIA H200"},
    "architecture":{"string":"Hopper"},"cudaComputeCapability":{"version":"9.0.0"},
    "driverVersion":{"version":"580.159.4"},"cudaDriverVersion":{"version":"13.0.0"}})");
  for (const auto& [name, value] : own.items()) {
    EXPECT_EQ(attributes[name], value) << name;
    EXPECT_EQ(attributes["gpu.nvidia.com/" + name], value) << name;
  }
  EXPECT_EQ(attributes["uuid"]["string"], list[0].gpu_uuid);
  EXPECT_EQ(attributes["resource.kubernetes.io/pciBusID"]["string"], "0000:3b:00.0");
  EXPECT_EQ(attributes["resource.kubernetes.io/numaNode"]["int"], 1);
  EXPECT_EQ(attributes["resource.kubernetes.io/pcieRoot"]["string"], "pci0000:3a");
  attributes = specs(slices_of(list, {"gpu.nvidia.com", "n1"}))[0]["devices"][0]["attributes"];
  EXPECT_FALSE(attributes.contains("gpu.nvidia.com/uuid")) << "it would hide the bare name";
}

TEST(DraSlices, HaveMigDevicesAsNvidiasWithoutCounters) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  auto inventory = *gpu::inventory_of_model("H200");
  auto& gpu = inventory.gpus[0];
  gpu.mig_enabled = true;
  gpu::MigDevice mig;
  mig.uuid = "MIG-a";
  mig.gpu_instance = 7;
  mig.profile = "1g.18gb";
  mig.memory = gib(16);
  mig.sm_count = 16;
  mig.engines = {1, 2, 0, 1, 0};
  mig.gi_cap = 12;
  mig.ci_cap = 13;
  gpu.mig_devices = {mig};
  const auto found = specs(slices_of(devices_of(config, inventory).list, kPool));
  ASSERT_EQ(found.size(), 1u) << "no counters";
  ASSERT_EQ(found[0]["devices"].size(), 1u) << "not the GPU as well";
  const Json& device = found[0]["devices"][0];
  EXPECT_EQ(device["name"], "gpu-0-mig-1g18gb-7-0");
  EXPECT_FALSE(device.contains("allowMultipleAllocations"));
  EXPECT_FALSE(device.contains("consumesCounters"));
  for (const std::string domain : {"", "gpu.nvidia.com/"}) {
    EXPECT_EQ(device["attributes"][domain + "type"]["string"], "mig");
    EXPECT_EQ(device["attributes"][domain + "uuid"]["string"], "MIG-a");
    EXPECT_EQ(device["attributes"][domain + "parentUUID"]["string"], gpu.uuid);
    EXPECT_EQ(device["attributes"][domain + "profile"]["string"], "1g.18gb");
  }
  EXPECT_EQ(device["capacity"], json_of(R"({"memory": {"value": "16Gi"}, "multiprocessors": {"value": "16"},
    "copyEngines": {"value": "1"}, "decoders": {"value": "2"}, "encoders": {"value": "0"}, "jpegEngines": {"value": "1"},
    "ofaEngines": {"value": "0"}})"));
}

TEST(DraSlices, TaintWhatIsFaultyExceptForMonitoring) {
  auto list = devices("H200");
  for (Device& device : list) device.fault = gpu::Unhealthy{gpu::Cause::kXid, "XID 79"};
  const Json all = specs(slices_of(list, kPool))[0]["devices"];
  for (const int at : {0, 1})
    EXPECT_EQ(all[at]["taints"],
              json_of(R"([{"key":"gpu.tranche.io/unhealthy","value":"xid","effect":"NoSchedule"}])"));
  EXPECT_FALSE(all[2].contains("taints"));
}

TEST(DraSlices, SayThatThereIsNoDevice) {
  const Slices slices = slices_of({}, kPool);
  ASSERT_EQ(slices.list.size(), 1u);
  EXPECT_EQ(specs(slices)[0]["pool"]["resourceSliceCount"], 1);
  EXPECT_FALSE(specs(slices)[0].contains("devices"));
}

// Promise: dra/slices: A shared device is not published where the API server would make an exclusive one of it.
TEST(DraSlices, WithholdWhatTheServerWouldStoreOtherwise) {
  auto list = devices("H200");
  Slices slices = slices_of(list, {"gpu.tranche.io", "n1", {.shares = false}});
  EXPECT_THAT(device_names(specs(slices)[0]), ElementsAre("gpu-0"));
  EXPECT_THAT(slices.notes, ElementsAre(HasSubstr("DRAConsumableCapacity")));
  slices = slices_of(list, {"gpu.tranche.io", "n1", {.counters = false}});
  EXPECT_THAT(device_names(specs(slices)[0]), ElementsAre("gpu-0", "gpu-0-monitor"));
  EXPECT_FALSE(specs(slices)[0]["devices"][0].contains("consumesCounters"));
  EXPECT_EQ(slices.list.size(), 1u);
  EXPECT_THAT(slices.notes, ElementsAre(HasSubstr("DRAPartitionableDevices")));
  for (Device& device : list) device.fault = gpu::Unhealthy{};
  slices = slices_of(list, {"gpu.tranche.io", "n1", {.taints = false}});
  EXPECT_THAT(device_names(specs(slices)[0]), ElementsAre("gpu-0-monitor"));
  EXPECT_THAT(slices.notes, ElementsAre(HasSubstr("DRADeviceTaints")));
}

TEST(DraSlices, TheProbeShowsWhatTheServerKeeps) {
  Json stored = json_of(probe_body(kPool));
  EXPECT_EQ(features_of(stored), Features{});
  stored["spec"]["devices"][0].erase("taints");
  EXPECT_EQ(features_of(stored), (Features{true, true, false}));
  stored["spec"]["devices"][0]["capacity"]["memory"].erase("requestPolicy");
  EXPECT_EQ(features_of(stored), (Features{false, true, false}));
  EXPECT_EQ(features_of(Json::array()), (Features{false, false, false}));
}

TEST(DraSlices, WriteQuantitiesAsKubernetesDoes) {
  EXPECT_EQ(quantity_of(mib(143771)), "143771Mi");
  EXPECT_EQ(quantity_of(gib(80)), "80Gi");
  EXPECT_EQ(quantity_of(gib(2048)), "2Ti");
  EXPECT_EQ(quantity_of({(1u << 20) + 5}), "1Mi");
  EXPECT_EQ(quantity_of({}), "0");
}

}  // namespace slices_test
}  // namespace tranche::dra
