#include "config/names.h"

#include <gtest/gtest.h>

namespace tranche::config {
namespace names_test {

TEST(NamesTest, ResourceNamesGetNvidiasPrefix) {
  EXPECT_EQ(resource_name("nvidia.com/gpu"), "nvidia.com/gpu");
  EXPECT_EQ(resource_name("gpu"), "nvidia.com/gpu");
  EXPECT_EQ(resource_name("mig-1g.5gb"), "nvidia.com/mig-1g.5gb");
  EXPECT_TRUE(resource_name("nvidia.com/" + std::string(52, 'a')));
}

TEST(NamesTest, RefusesWhatKubeletWould) {
  for (const std::string& bad :
       {std::string("amd.com/gpu"), std::string("GPU"), std::string(""), std::string("nvidia.com/"),
        std::string("gpu-"), std::string("a..b"), std::string("gpu_1"), std::string(53, 'a')})
    EXPECT_FALSE(resource_name(bad)) << bad;
}

TEST(NamesTest, DeviceReferences) {
  const std::string uuid = "3f2a1b4c-1111-2222-3333-444444444444";
  for (const std::string& good :
       {std::string("0"), std::string("12"), std::string("0:1"), "GPU-" + uuid, "MIG-" + uuid,
        "MIG-GPU-" + uuid + "/1/0", "GPU-{" + uuid + "}", "MIG-{" + uuid + "}", "GPU-urn:uuid:" + uuid,
        "MIG-GPU-{" + uuid + "}/1/0", std::string("GPU-3f2a1b4c111122223333444444444444")})
    EXPECT_TRUE(is_device_reference(good)) << good;
  for (const std::string& bad :
       {std::string(""), std::string("-1"), std::string("0:"), std::string("0:1:2"), "gpu-" + uuid, uuid,
        std::string("GPU-"), std::string("GPU-1"), "MIG-GPU-" + uuid, "MIG-GPU-" + uuid + "/1", std::string("all")})
    EXPECT_FALSE(is_device_reference(bad)) << bad;
}

TEST(NamesTest, PatternsSayWhatDistinguishesResources) {
  EXPECT_EQ(name_pattern("gpu%d"), "nvidia.com/gpu%d");
  EXPECT_EQ(name_pattern("nvidia.com/gpu-%m-%ggb"), "nvidia.com/gpu-%m-%ggb");
  for (const char* bad : {"", "gpu", "%", "gpu%", "gpu%s", "gpu%%d", "GPU%d", "-%d", "x.com/gpu%d"})
    EXPECT_FALSE(name_pattern(bad)) << bad;
  EXPECT_EQ(expand("nvidia.com/gpu-%m-%ggb-%d", {"3", 10, "NVIDIA H200"}), "nvidia.com/gpu-h200-10gb-3");
}

TEST(NamesTest, ModelsBecomePartsOfNames) {
  EXPECT_EQ(model_in_names("NVIDIA A100-SXM4-40GB"), "a100-sxm4-40gb");
  EXPECT_EQ(model_in_names("Tesla T4"), "tesla-t4");
  EXPECT_EQ(model_in_names("NVIDIA RTX 6000 Ada (x)"), "rtx-6000-ada-x");
  EXPECT_EQ(model_in_names("?"), "");
}

TEST(NamesTest, PciAddressesHaveOneForm) {
  EXPECT_EQ(pci_address("0000:3B:00.0"), "00000000:3b:00.0");
  EXPECT_EQ(pci_address("00000001:3b:00.0"), "00000001:3b:00.0");
  EXPECT_EQ(pci_address("3b:00.0"), "00000000:3b:00.0");
  for (const char* bad : {"", "0", "3b:00", "3b:00.x", "0:1", "000000000:3b:00.0", "0000:3b:00.0:1", "zz:00.0"})
    EXPECT_FALSE(pci_address(bad)) << bad;
}

TEST(NamesTest, PatternsOfModelsMatchTheWholeName) {
  EXPECT_TRUE(matches("NVIDIA H200", "nvidia h200"));
  EXPECT_TRUE(matches("NVIDIA H200 NVL", "NVIDIA H200*"));
  EXPECT_TRUE(matches("NVIDIA A100-SXM4-40GB", "*A100*40GB"));
  EXPECT_TRUE(matches("aab", "*ab"));
  EXPECT_TRUE(matches("", "*"));
  EXPECT_FALSE(matches("NVIDIA H200 NVL", "NVIDIA H200"));
  EXPECT_FALSE(matches("NVIDIA A100-SXM4-40GB", "0")) << "an index is no part of a name";
  EXPECT_FALSE(matches("ab", "a"));
  EXPECT_FALSE(matches("", "a*"));
}

}  // namespace names_test
}  // namespace tranche::config
