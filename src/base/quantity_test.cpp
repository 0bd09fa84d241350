#include "base/units.h"

#include <gtest/gtest.h>

#include <vector>

namespace tranche {
namespace {

TEST(Quantity, AWholeNumberMayBeWrittenInEveryWayOfKubernetes) {
  const std::vector<std::pair<std::string_view, std::uint64_t>> rows{
      {"0", 0},      {"1", 1},        {"+2", 2},     {"007", 7},         {"3.0", 3},    {"2k", 2000},
      {"1000m", 1},  {"2000000u", 2}, {"1e1", 10},   {"1E3", 1000},      {"1e+2", 100}, {"20e-1", 2},
      {"1Ki", 1024}, {"1.5Ki", 1536}, {"0.001k", 1}, {"1G", 1000000000}, {"0e999", 0}};
  for (const auto& [text, value] : rows) {
    const auto count = parse_count(text);
    ASSERT_TRUE(count) << text << ": " << to_string(count.error());
    EXPECT_EQ(*count, value) << text;
  }
}

TEST(Quantity, WhatIsNoneIsSaid) {
  const std::vector<std::pair<std::string_view, std::string_view>> rows{
      {"", "is \"\""},
      {"many", "is \"many\""},
      {"1 ", "is \"1 \""},
      {"1kB", "is \"1kB\""},
      {".", "is \".\""},
      {"1e", "is \"1e\""},
      {"1e+-2", "is \"1e+-2\""},
      {"-1", "is negative"},
      {"0.5", "is not whole"},
      {"1500m", "is not whole"},
      {"2500000u", "is not whole"},
      {"1e-99", "is not whole"},
      {"0.3Ki", "is not whole"},
      {"2G", "is more than any node has"},
      {"1Ei", "is more than any node has"},
      {"1e99", "is more than any node has"},
      {"99999999999999999999", "is more than any node has"}};
  for (const auto& [text, what] : rows) {
    const auto count = parse_count(text);
    ASSERT_FALSE(count) << text << " is " << *count;
    EXPECT_EQ(count.error().what, what) << text;
  }
}

}  // namespace
}  // namespace tranche
