#include "config/names.h"

#include <gtest/gtest.h>

namespace tranche::config {
namespace {

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

}  // namespace
}  // namespace tranche::config
