#include "gpu/models/models.h"

#include <gmock/gmock.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace tranche::mig {
namespace models_test {

using ::testing::HasSubstr;

std::string profile_file(std::string_view key) {
  const char* source = std::getenv("TRANCHE_SOURCE");
  return std::string(source == nullptr ? "." : source) + "/data/gpus/" + std::string(key) + ".yaml";
}

// The stand-in's driver answers from these files, too.
TEST(MigModels, AgreeWithTheDriverOfTheStandIns) {
  int compared = 0;
  for (const gpu::GpuModel& model : gpu::mig_models()) {
    SCOPED_TRACE(model.key);
    if (!std::filesystem::exists(profile_file(model.key))) continue;
    ++compared;
    const YAML::Node file = YAML::LoadFile(profile_file(model.key));
    EXPECT_EQ(file["name"].as<std::string>(), model.name);
    EXPECT_EQ(std::stoul(file["pci"]["device"].as<std::string>(), nullptr, 16), model.pci_device_id >> 16);
    EXPECT_EQ(file["memory"]["total"].as<std::string>(), std::to_string(model.memory_mib) + "MiB");
    EXPECT_EQ(file["mig"]["memorySlices"].as<std::uint32_t>(), model.memory_slices);
    EXPECT_EQ(file["mig"]["needsReset"].as<bool>(), mode_needs_reset(model.compute_capability));
    const YAML::Node profiles = file["mig"]["profiles"];
    ASSERT_EQ(profiles.size(), model.profiles.size());
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      const Profile& profile = model.profiles[i];
      SCOPED_TRACE(profile.name);
      const YAML::Node line = profiles[i];
      EXPECT_EQ(line["id"].as<std::uint32_t>(), profile.id);
      EXPECT_EQ(line["name"].as<std::string>(), profile.name);
      EXPECT_EQ(line["max"].as<std::uint32_t>(), profile.at_most);
      EXPECT_EQ(line["memoryMiB"].as<std::uint64_t>(), profile.memory_mib);
      EXPECT_EQ(line["sms"].as<std::uint32_t>(), profile.sm_count);
      const char* const engines[] = {"ce", "dec", "enc", "jpg", "ofa"};
      for (std::size_t e = 0; e < kEngineKinds; ++e)
        EXPECT_EQ(line[engines[e]].as<std::uint32_t>(), profile.engines[e]) << engines[e];
      const auto starts = line["starts"].as<std::vector<std::uint32_t>>();
      ASSERT_EQ(starts.size(), profile.placements.size());
      for (std::size_t p = 0; p < starts.size(); ++p)
        EXPECT_EQ(profile.placements[p], (Placement{starts[p], line["size"].as<std::uint32_t>()}));
    }
  }
  EXPECT_GE(compared, 6);
}

// The name's gigabytes are the share of the memory in eighths, of the memory in whole gigabytes.
TEST(MigModels, NamesFollowFromTheMemory) {
  for (const gpu::GpuModel& model : gpu::mig_models()) {
    for (const Profile& profile : model.profiles) {
      if (profile.memory_mib == 0) continue;  // no source gives it
      const double eighths = std::ceil(8.0 * static_cast<double>(profile.memory_mib) / model.memory_mib);
      const double whole = std::ceil(model.memory_mib / 1024.0);
      const auto name = parse_profile_name(profile.name);
      ASSERT_TRUE(name) << profile.name;
      EXPECT_EQ(name->gigabytes, std::llround(eighths * whole / 8)) << model.key << " " << profile.name;
      EXPECT_EQ(name->slices, profile.slices);
    }
  }
}

TEST(MigModels, EveryProfileFitsAsOftenAsItsTableSays) {
  for (const gpu::GpuModel& model : gpu::mig_models()) {
    std::set<std::uint32_t> ids;
    for (const Profile& profile : model.profiles) {
      EXPECT_TRUE(ids.insert(profile.id).second) << model.key << " " << profile.name;
      EXPECT_LE(profile.at_most, profile.placements.size()) << model.key << " " << profile.name;
      for (const Placement& at : profile.placements) EXPECT_LE(at.start + at.size, model.memory_slices);
    }
    EXPECT_EQ(gpu::model_of(model.pci_device_id, ""), &model);
    EXPECT_EQ(gpu::model_of(0, model.name), &model);
  }
}

TEST(MigModels, MakeSimulatedNodes) {
  const auto node = gpu::simulated_node("8xA100-SXM4-40GB");
  ASSERT_TRUE(node) << to_string(node.error());
  ASSERT_EQ(node->size(), 8u);
  EXPECT_EQ(node->back().index, 7u);
  EXPECT_TRUE(node->back().capable);
  EXPECT_FALSE(node->back().enabled);
  EXPECT_EQ(gpu::simulated_node("A30")->size(), 1u);
  EXPECT_THAT(to_string(gpu::simulated_node("8xA100-SXM4-40G").error()), HasSubstr("did you mean A100-SXM4-40GB?"));
  EXPECT_THAT(to_string(gpu::simulated_node("17xH200").error()), HasSubstr("does not name 1 to 16 GPUs"));
}

}  // namespace models_test
}  // namespace tranche::mig
