#include "gpu/health/healthchecks.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <set>
#include <string>

namespace tranche::gpu {
namespace xids_test {

// data/xids.yaml is the file that people edit; the build makes the table that the agent uses. They must be equal.
TEST(Xids, CompiledTableIsTheFile) {
  const char* source = std::getenv("TRANCHE_SOURCE");
  ASSERT_NE(source, nullptr) << "set by ctest";
  const YAML::Node file = YAML::LoadFile(std::string(source) + "/data/xids.yaml");
  const auto rules = xid_rules();
  ASSERT_EQ(file.size(), rules.size());
  const std::set<std::string> keys{"xids", "class", "meaning", "source"};
  for (std::size_t i = 0; i < rules.size(); ++i) {
    SCOPED_TRACE(rules[i].from);
    for (const auto& field : file[i]) EXPECT_TRUE(keys.contains(field.first.as<std::string>()));
    const YAML::Node xids = file[i]["xids"];
    EXPECT_EQ((xids.IsSequence() ? xids[0] : xids).as<std::uint64_t>(), rules[i].from);
    EXPECT_EQ((xids.IsSequence() ? xids[1] : xids).as<std::uint64_t>(), rules[i].to);
    EXPECT_EQ(file[i]["class"].as<std::string>(), to_string(rules[i].cls));
    EXPECT_EQ(file[i]["meaning"].as<std::string>(), rules[i].meaning);
    EXPECT_FALSE(file[i]["source"].as<std::string>().empty());
  }
}

TEST(Xids, RulesAreSortedAndDoNotOverlap) {
  std::uint64_t after = 0;
  for (const XidRule& rule : xid_rules()) {
    EXPECT_LE(rule.from, rule.to);
    EXPECT_GT(rule.from, after) << rule.from;
    EXPECT_FALSE(rule.meaning.empty()) << rule.from;
    after = rule.to;
  }
}

// Promise: health: XIDs that NVIDIA's plugin ignores mark no GPU.
TEST(Xids, ThoseThatNvidiasPluginIgnoresMakeNoGpuUnhealthy) {
  for (const std::uint64_t xid : {13, 31, 43, 45, 68, 109}) {
    const XidClass cls = class_of_xid(xid);
    EXPECT_TRUE(cls == XidClass::kIgnore || cls == XidClass::kApplication) << xid;
  }
}

// Promise: health: The catalogue decides the class of an XID; an unknown XID drains.
TEST(Xids, TheCatalogueDecidesAndTheUnknownDrains) {
  EXPECT_EQ(class_of_xid(14), XidClass::kIgnore);
  EXPECT_EQ(class_of_xid(94), XidClass::kApplication);
  EXPECT_EQ(class_of_xid(105), XidClass::kApplication) << "the end of a span";
  EXPECT_EQ(class_of_xid(79), XidClass::kDrain);
  EXPECT_EQ(class_of_xid(48), XidClass::kReset);
  EXPECT_EQ(class_of_xid(95), XidClass::kReset);
  for (const std::uint64_t unknown : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{99999}, ~std::uint64_t{0}}) {
    EXPECT_EQ(find_xid(unknown), nullptr) << unknown;
    EXPECT_EQ(class_of_xid(unknown), XidClass::kDrain) << unknown;
  }
}

}  // namespace xids_test
}  // namespace tranche::gpu
