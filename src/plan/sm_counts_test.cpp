#include "plan/sm_counts.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>

// data/sm-counts.yaml is what people read and change; the compiled table is what runs. They are one.
namespace tranche::plan {
namespace {

TEST(SmCountsTest, CompiledTableIsTheFile) {
  const char* source = std::getenv("TRANCHE_SOURCE");
  ASSERT_NE(source, nullptr) << "set by ctest";
  const YAML::Node file = YAML::LoadFile(std::string(source) + "/data/sm-counts.yaml");
  ASSERT_EQ(file.size(), kSmCounts.size());
  for (std::size_t i = 0; i < kSmCounts.size(); ++i) {
    const SmCounts& row = kSmCounts[i];
    EXPECT_EQ(file[i]["computeCapability"].as<std::string>(),
              std::to_string(row.capability.major) + "." + std::to_string(row.capability.minor));
    EXPECT_EQ(file[i]["smCount"].as<std::uint32_t>(), row.sm_count);
    EXPECT_FALSE(file[i]["evidence"].as<std::string>().empty());
    ASSERT_EQ(file[i]["trusted"].size(), row.trusted.size());
    for (std::size_t k = 0; k < row.trusted.size(); ++k) {
      EXPECT_EQ(file[i]["trusted"][k][0].as<std::uint32_t>(), row.trusted[k].from);
      EXPECT_EQ(file[i]["trusted"][k][1].as<std::uint32_t>(), row.trusted[k].to);
    }
  }
}

}  // namespace
}  // namespace tranche::plan
