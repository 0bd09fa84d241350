#include "gpu/platform/platform.h"

#include <gtest/gtest.h>

namespace tranche::gpu {
namespace {

using config::DiscoveryStrategy;
constexpr auto kAuto = DiscoveryStrategy::kAuto;

// Promise: discovery: Signs decide the platform in a fixed order.
TEST(PlatformOf, IsDecidedBySignsInThisOrder) {
  struct Row {
    DiscoveryStrategy strategy;
    PlatformSigns signs;
    Platform platform;
    const char* because;
  };
  const Row rows[] = {
      {kAuto, {.nvml_loads = true}, Platform::kNvml, "an ordinary node"},
      {kAuto, {}, Platform::kNvml, "nothing was seen: the driver is waited for"},
      {kAuto, {.dxcore = true, .nvml_loads = true}, Platform::kWsl, "WSL"},
      {kAuto, {.dxcore = true, .tegra_system = true, .integrated_gpu = true}, Platform::kWsl, "WSL comes first"},
      {kAuto, {.tegra_system = true}, Platform::kTegra, "a Tegra system without the library"},
      {kAuto, {.tegra_system = true, .nvml_loads = true}, Platform::kNvml, "Tegra with a discrete GPU's driver"},
      {kAuto, {.nvml_loads = true, .integrated_gpu = true}, Platform::kTegra, "the library lists a Tegra's GPU"},
      {kAuto,
       {.tegra_system = true, .nvml_loads = true, .integrated_gpu = true},
       Platform::kTegra,
       "a Tegra whose library lists its GPU"},
      {DiscoveryStrategy::kNvml,
       {.tegra_system = true, .integrated_gpu = true},
       Platform::kNvml,
       "named, so not asked"},
      {DiscoveryStrategy::kNvml, {.dxcore = true}, Platform::kWsl, "the same library serves under WSL"},
      {DiscoveryStrategy::kTegra, {.nvml_loads = true}, Platform::kTegra, "named, so not asked"},
      {DiscoveryStrategy::kTegra, {.dxcore = true}, Platform::kTegra, "named, so not asked"},
  };
  for (const Row& row : rows) EXPECT_EQ(platform_of(row.strategy, row.signs), row.platform) << row.because;
}

TEST(PlatformOf, KnowsTegraByItsFamilyInAnyCase) {
  for (const char* family : {"Tegra", "tegra", "TEGRA\n", " Tegra234"}) EXPECT_TRUE(is_tegra_family(family)) << family;
  for (const char* family : {"", "Teg", "i.MX", "NVIDIA Tegra", "\n"}) EXPECT_FALSE(is_tegra_family(family)) << family;
}

TEST(PlatformOf, KnowsIntegratedGpusByTheirNames) {
  for (const char* name : {"Orin (nvgpu)", "Xavier (nvgpu)", "NVIDIA Thor", "NVIDIA Thor (T5000)"})
    EXPECT_TRUE(is_integrated_gpu(name)) << name;
  for (const char* name : {"NVIDIA H200", "nvgpu", "Thor", ""}) EXPECT_FALSE(is_integrated_gpu(name)) << name;
}

}  // namespace
}  // namespace tranche::gpu
