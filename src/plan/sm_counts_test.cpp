#include "plan/shares.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

// data/sm-counts.yaml is the file that people edit; the compiled table is what programs use. They must be equal.
namespace tranche::plan {
namespace sm_counts_test {

std::vector<YAML::Node> rows() {
  const char* source = std::getenv("TRANCHE_SOURCE");
  EXPECT_NE(source, nullptr) << "set by ctest";
  const YAML::Node file = YAML::LoadFile(std::string(source) + "/data/sm-counts.yaml");
  return {file.begin(), file.end()};
}

// The counts in the spans of `key`; only even counts, as the driver assigns them.
std::set<std::uint32_t> counts(const YAML::Node& entry, const char* key) {
  std::set<std::uint32_t> all;
  for (const auto& span : entry[key]) {
    EXPECT_EQ(span.size(), 2u) << key;
    for (std::uint32_t sms = span[0].as<std::uint32_t>(); sms <= span[1].as<std::uint32_t>(); sms += 2) all.insert(sms);
  }
  return all;
}

TEST(SmCountsTest, CompiledTableIsTheFile) {
  EXPECT_EQ(rows().size(), 1u) << "trusted_sm_counts() knows one GPU";
  for (const YAML::Node& row : rows()) {
    const auto capability = row["computeCapability"].as<std::string>();
    const auto point = capability.find('.');
    const auto spans =
        trusted_sm_counts({std::stoi(capability.substr(0, point)), std::stoi(capability.substr(point + 1))},
                          row["smCount"].as<std::uint32_t>());
    ASSERT_EQ(row["trusted"].size(), spans.size());
    for (std::size_t k = 0; k < spans.size(); ++k) {
      EXPECT_EQ(row["trusted"][k][0].as<std::uint32_t>(), spans[k].from);
      EXPECT_EQ(row["trusted"][k][1].as<std::uint32_t>(), spans[k].to);
    }
  }
}

// Promise: plan/shares: A trusted SM count is right in some evidence and wrong in none.
TEST(SmCountsTest, ATrustedCountIsRightInSomeEvidenceAndWrongOrMixedInNone) {
  for (const YAML::Node& row : rows()) {
    std::set<std::uint32_t> right, against;
    ASSERT_GT(row["evidence"].size(), 0u);
    for (const auto& entry : row["evidence"]) {
      EXPECT_FALSE(entry["how"].as<std::string>().empty());
      right.merge(counts(entry, "right"));
      against.merge(counts(entry, "wrong"));
      against.merge(counts(entry, "mixed"));
    }
    for (const std::uint32_t sms : counts(row, "trusted")) {
      EXPECT_TRUE(right.contains(sms)) << sms << " was never measured";
      EXPECT_FALSE(against.contains(sms)) << sms;
    }
  }
}

}  // namespace sm_counts_test
}  // namespace tranche::plan
