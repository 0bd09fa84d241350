#include "gpu/models/models.h"

#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>

namespace tranche::gpu {
namespace models_test {

using ::testing::HasSubstr;

// data/gpus is what people edit and the stand-ins read; the build makes the table that plans use.
TEST(Models, CompiledTableIsTheProfiles) {
  const char* source = std::getenv("TRANCHE_SOURCE");
  ASSERT_NE(source, nullptr) << "set by ctest";
  for (const GpuModel& model : gpu_models()) {
    if (model.sm_count == 0) continue;
    const std::string file = std::string(model.key) + ".yaml";
    SCOPED_TRACE(file);
    const YAML::Node profile = YAML::LoadFile(std::string(source) + "/data/gpus/" + file);
    EXPECT_EQ(profile["name"].as<std::string>(), model.name);
    EXPECT_EQ(profile["memory"]["total"].as<std::string>(), std::to_string(model.memory_mib) + "MiB");
    EXPECT_EQ(profile["sms"].as<std::uint32_t>(), model.sm_count);
    const auto [major, minor] = model.compute_capability;
    EXPECT_EQ(profile["computeCapability"].as<std::string>(), std::to_string(major) + "." + std::to_string(minor));
    EXPECT_EQ(profile["mig"].IsDefined(), !model.profiles.empty());
    EXPECT_EQ(std::stoul(profile["pci"]["class"].as<std::string>(), nullptr, 16), model.pci_class);
  }
}

TEST(Models, AnInventoryOfEqualGpus) {
  const auto inventory = inventory_of_model("8xH100-SXM5-80GB");
  ASSERT_TRUE(inventory) << to_string(inventory.error());
  ASSERT_EQ(inventory->gpus.size(), 8u);
  EXPECT_EQ(inventory->links.size(), 28u);
  EXPECT_EQ(inventory->gpus[7].memory, mib(81559));
  EXPECT_NE(inventory->gpus[0].uuid, inventory->gpus[7].uuid);
  EXPECT_EQ(inventory_of_model("T4")->gpus.size(), 1u);
}

TEST(Models, AnUnknownModelIsAnsweredWithAGuessAndTheList) {
  EXPECT_THAT(
      to_string(inventory_of_model("8xH100").error()),
      HasSubstr("\"H100\" is not a known GPU model; did you mean H100-SXM5-80GB? The models are A10, A100-PCIE"));
  EXPECT_THAT(to_string(inventory_of_model("2xH20").error()), HasSubstr("did you mean H200?"));
  for (const char* text : {"0xH200", "17xH200", "99999999999xH200"})
    EXPECT_THAT(to_string(inventory_of_model(text).error()), HasSubstr("does not name 1 to 16 GPUs")) << text;
  EXPECT_TRUE(names_model("8xnothing"));
  EXPECT_FALSE(names_model("node.json"));
  EXPECT_FALSE(names_model("./fixtures/x.json"));
}

}  // namespace models_test
}  // namespace tranche::gpu
