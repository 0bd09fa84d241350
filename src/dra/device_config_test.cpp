#include "dra/device_config.h"

#include <gmock/gmock.h>

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
  const auto read = read_device_config(parameters, "config[1].opaque.parameters");
  return read ? "read" : to_string(read.error());
}

TEST(DeviceConfig, OfEveryStrategyIsRead) {
  EXPECT_EQ(*read_device_config(gpu(), "f"), DeviceConfig{});
  EXPECT_EQ(read_device_config(gpu("", "MigDeviceConfig"), "f")->device, DeviceConfig::For::kMig);
  const auto slicing =
      read_device_config(gpu(R"("sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}})"), "f");
  ASSERT_TRUE(slicing) << to_string(slicing.error());
  EXPECT_EQ(slicing->strategy, DeviceConfig::Strategy::kTimeSlicing);
  EXPECT_EQ(slicing->interval, "Long");
  const auto limits = read_device_config(
      mps(R"("defaultActiveThreadPercentage":50,"defaultPinnedDeviceMemoryLimit":"10Gi","multiUser":true,)"
          R"("defaultPerDevicePinnedMemoryLimit":{"0":"10000000000","GPU-1":"5Gi"})"),
      "f");
  ASSERT_TRUE(limits) << to_string(limits.error());
  EXPECT_EQ(limits->strategy, DeviceConfig::Strategy::kMps);
  EXPECT_EQ(limits->threads, 50u);
  EXPECT_EQ(limits->memory, gib(10));
  EXPECT_THAT(limits->memory_on, ElementsAre(Pair("0", mib(9536)), Pair("GPU-1", gib(5))));
  EXPECT_TRUE(read_device_config(gpu(R"("sharing":null)"), "f")) << "null is absent";
}

// Promise: dra/prepare: An opaque configuration is read strictly: a refusal names the field and what to write.
TEST(DeviceConfig, RefusalsNameTheFieldAndSayWhatToWrite) {
  const std::string at = "config[1].opaque.parameters";
  EXPECT_THAT(refused("[]"), HasSubstr(at + " is not an object"));
  EXPECT_THAT(refused("{}"), AllOf(HasSubstr(at + ".apiVersion is absent"), HasSubstr("resource.nvidia.com/v1beta1")));
  EXPECT_THAT(refused(R"({"apiVersion":"gpu.resource.nvidia.com/v1alpha1","kind":"GpuConfig"})"),
              HasSubstr("write one of: resource.nvidia.com/v1beta1"));
  EXPECT_THAT(
      refused(gpu("", "VfioDeviceConfig")),
      HasSubstr(at +
                ".kind is VfioDeviceConfig, for GPUs of virtual machines, and this driver gives GPUs to containers "
                "only; write GpuConfig, or run the pod on a node with NVIDIA's DRA driver"));
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
  Claim claim;
  const auto applies = [&claim](Kind kind = Kind::kWhole) {
    const auto configs = read_device_configs(claim);
    EXPECT_TRUE(configs);
    const auto found = config_of(claim, *configs, "gpu", kind);
    EXPECT_TRUE(found) << to_string(found.error());
    return found ? *found : std::nullopt;
  };
  EXPECT_EQ(applies(), std::nullopt);
  claim.configs = {{true, {}, gpu(), "c0"}, {true, {"gpu"}, gpu(), "c1"}};
  EXPECT_EQ(applies(), 1u);
  claim.configs.push_back({false, {}, gpu(), "c2"});
  claim.configs.push_back({false, {"other"}, gpu(), "c3"});
  EXPECT_EQ(applies(), 2u);
  EXPECT_EQ(applies(Kind::kMonitor), std::nullopt);
  std::swap(claim.configs[0], claim.configs[2]);
  EXPECT_EQ(applies(), 0u) << "whatever their order";
  claim.configs.push_back({false, {}, gpu("", "MigDeviceConfig"), "c4"});
  EXPECT_EQ(applies(), 0u) << "one without requests applies to devices of its kind";
  claim.configs.push_back({false, {"gpu"}, gpu("", "MigDeviceConfig"), "c5"});
  const auto wrong_kind = config_of(claim, *read_device_configs(claim), "gpu", Kind::kWhole);
  ASSERT_FALSE(wrong_kind);
  EXPECT_THAT(wrong_kind.error().what, HasSubstr("c5.kind is for MIG devices, and request \"gpu\" has a GPU without"));
  claim.configs = {{false, {}, gpu(), "c6"}, {false, {"gpu"}, gpu("", "MigDeviceConfig"), "c7"}};
  EXPECT_EQ(applies(Kind::kMig), 1u);
  claim.configs.push_back({false, {"gpu"}, gpu(), "c8"});
  const auto for_gpus = config_of(claim, *read_device_configs(claim), "gpu", Kind::kMig);
  ASSERT_FALSE(for_gpus);
  EXPECT_THAT(for_gpus.error().what, HasSubstr("c8.kind is for GPUs, and request \"gpu\" has a MIG device; write Mig"));
  claim.configs.push_back({false, {"other"}, "{}", "c9"});
  const auto unread = read_device_configs(claim);
  ASSERT_FALSE(unread) << "one that applies to nothing must be right too";
  EXPECT_THAT(unread.error().what, HasSubstr("c9.apiVersion"));
}

TEST(DeviceConfig, WhatHasNoEffectIsNamed) {
  Claim claim;
  claim.configs = {
      {false, {}, gpu(R"("sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Default"}})"), "c0"},
      {false, {}, gpu(R"("sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Short"}})"), "c1"}};
  EXPECT_THAT(without_effect(claim), ElementsAre(HasSubstr("c1.sharing.timeSlicingConfig.interval is Short")));
}

}  // namespace device_config_test
}  // namespace tranche::dra
