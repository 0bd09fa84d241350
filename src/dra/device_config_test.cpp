#include "dra/claim.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace tranche::dra {
namespace device_config_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// `rest`: members after apiVersion and kind.
std::string gpu(const std::string& rest = "", const std::string& kind = "GpuConfig") {
  return R"({"apiVersion":"resource.nvidia.com/v1beta1","kind":")" + kind + "\"" + (rest.empty() ? "" : "," + rest) +
         "}";
}
std::string mps(const std::string& config) {
  return gpu(R"("sharing":{"strategy":"MPS","mpsConfig":{)" + config + "}}");
}
std::string refused(const std::string& parameters) {
  const auto read = read_device_config(json_of(parameters), "config[1].opaque.parameters");
  return read ? "read" : to_string(read.error());
}

TEST(DeviceConfig, OfEveryStrategyIsRead) {
  EXPECT_EQ(*read_device_config(json_of(gpu()), "f"), DeviceConfig{.field = "f"});
  EXPECT_EQ(read_device_config(json_of(gpu("", "MigDeviceConfig")), "f")->device, DeviceConfig::For::kMig);
  const auto slicing = read_device_config(
      json_of(gpu(R"("sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}})")), "f");
  ASSERT_TRUE(slicing) << to_string(slicing.error());
  EXPECT_EQ(slicing->strategy, DeviceConfig::Strategy::kTimeSlicing);
  const auto limits = read_device_config(
      json_of(mps(R"("defaultActiveThreadPercentage":50,"defaultPinnedDeviceMemoryLimit":"10Gi","multiUser":true,)"
                  R"("defaultPerDevicePinnedMemoryLimit":{"0":"10000000000","GPU-1":"5Gi"})")),
      "f");
  ASSERT_TRUE(limits) << to_string(limits.error());
  EXPECT_EQ(limits->strategy, DeviceConfig::Strategy::kMps);
  EXPECT_EQ(limits->threads, 50u);
  EXPECT_EQ(limits->memory, gib(10));
  EXPECT_THAT(limits->memory_on, ElementsAre(Pair("0", mib(9536)), Pair("GPU-1", gib(5))));
  EXPECT_TRUE(read_device_config(json_of(gpu(R"("sharing":null)")), "f")) << "null is absent";
}

// Promise: dra/prepare: An opaque configuration is read strictly: a refusal names the field and what to write.
TEST(DeviceConfig, RefusalsNameTheFieldAndSayWhatToWrite) {
  const std::string at = "config[1].opaque.parameters";
  EXPECT_THAT(refused("[]"), HasSubstr(at + " is not an object"));
  EXPECT_THAT(refused("{}"), AllOf(HasSubstr(at + ".apiVersion is absent"), HasSubstr("resource.nvidia.com/v1beta1")));
  EXPECT_THAT(refused(R"({"apiVersion":"gpu.resource.nvidia.com/v1alpha1","kind":"GpuConfig"})"),
              HasSubstr("write one of: resource.nvidia.com/v1beta1"));
  EXPECT_THAT(refused(gpu("", "MpsConfig")),
              HasSubstr(at + ".kind is \"MpsConfig\"; write one of: GpuConfig, MigDeviceConfig"));
  EXPECT_THAT(refused(gpu(R"("Sharing":{})")), HasSubstr(at + " has no field \"Sharing\""));
  EXPECT_THAT(refused(gpu(R"("sharing":[])")), HasSubstr(at + ".sharing is not an object"));
  EXPECT_THAT(refused(gpu(R"("sharing":{})")), HasSubstr(at + ".sharing.strategy is absent; write TimeSlicing or MPS"));
  EXPECT_THAT(refused(gpu(R"("sharing":{"strategy":"mps"})")), HasSubstr("write one of: TimeSlicing, MPS"));
  EXPECT_THAT(refused(gpu(R"("sharing":{"strategy":"TimeSlicing","mpsConfig":{}})")),
              HasSubstr(at + ".sharing.mpsConfig cannot be combined with the strategy TimeSlicing"));
  EXPECT_THAT(refused(gpu(R"("sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"5ms"}})")),
              HasSubstr("timeSlicingConfig.interval is \"5ms\"; write one of: Default, Short, Medium, Long"));
  EXPECT_THAT(refused(gpu(R"("sharing":{"strategy":"MPS","timeSlicingConfig":{}})", "MigDeviceConfig")),
              HasSubstr(at + ".sharing has no field \"timeSlicingConfig\""));
  EXPECT_THAT(refused(mps(R"("activeThreads":1)")), HasSubstr(at + ".sharing.mpsConfig has no field"));
  for (const char* bad : {"101", "-1", "50.5", "\"50\"", "true"})
    EXPECT_THAT(refused(mps(std::string(R"("defaultActiveThreadPercentage":)") + bad)),
                HasSubstr("defaultActiveThreadPercentage is not a whole number from 0 to 100"))
        << bad;
  EXPECT_THAT(refused(mps(R"("defaultPinnedDeviceMemoryLimit":"10GB")")),
              HasSubstr("defaultPinnedDeviceMemoryLimit cannot be used: \"10GB\" is not a quantity"));
  EXPECT_THAT(refused(mps(R"("defaultPinnedDeviceMemoryLimit":"1Mi")")), HasSubstr("a CUDA context alone takes"));
  EXPECT_THAT(refused(mps(R"("defaultPerDevicePinnedMemoryLimit":{"0":true})")),
              HasSubstr("defaultPerDevicePinnedMemoryLimit[\"0\"] is not a quantity"));
  EXPECT_THAT(refused(mps(R"("defaultPerDevicePinnedMemoryLimit":"10Gi")")), HasSubstr("is not an object"));
  EXPECT_THAT(refused(mps(R"("multiUser":"yes")")), HasSubstr("multiUser is not true or false"));
}

TEST(DeviceConfig, TheLastOneAppliesAndTheClaimsBeforeItsClasss) {
  constexpr auto kMig = DeviceConfig::For::kMig;
  std::vector<DeviceConfig> configs;
  const auto applies = [&configs](Kind kind = Kind::kWhole) {
    const auto found = config_of(configs, "gpu", kind);
    EXPECT_TRUE(found) << to_string(found.error());
    return found && *found != nullptr ? (*found)->field : "";
  };
  EXPECT_EQ(applies(), "");
  configs = {{true, {}, "c0"}, {true, {"gpu"}, "c1"}};
  EXPECT_EQ(applies(), "c1");
  configs.push_back({false, {}, "c2"});
  configs.push_back({false, {"other"}, "c3"});
  EXPECT_EQ(applies(), "c2");
  EXPECT_EQ(applies(Kind::kMonitor), "");
  std::swap(configs[0], configs[2]);
  EXPECT_EQ(applies(), "c2") << "whatever their order";
  configs.push_back({false, {}, "c4", kMig});
  EXPECT_EQ(applies(), "c2") << "one without requests applies to devices of its kind";
  configs.push_back({false, {"gpu"}, "c5", kMig});
  const auto wrong_kind = config_of(configs, "gpu", Kind::kWhole);
  ASSERT_FALSE(wrong_kind);
  EXPECT_THAT(wrong_kind.error().what, HasSubstr("c5.kind is for MIG devices, and request \"gpu\" has a GPU without"));
  configs = {{false, {}, "c6"}, {false, {"gpu"}, "c7", kMig}};
  EXPECT_EQ(applies(Kind::kMig), "c7");
  configs.push_back({false, {"gpu"}, "c8"});
  const auto for_gpus = config_of(configs, "gpu", Kind::kMig);
  ASSERT_FALSE(for_gpus);
  EXPECT_THAT(for_gpus.error().what, HasSubstr("c8.kind is for GPUs, and request \"gpu\" has a MIG device; write Mig"));
}

}  // namespace device_config_test
}  // namespace tranche::dra
