#include "config/parse.h"

#include <gmock/gmock.h>

namespace tranche::config {
namespace {

TEST(ParseTest, EmptyFileIsTheDefault) {
  const Parsed parsed = parse("", "c.yaml");
  EXPECT_TRUE(parsed.problems.empty());
  EXPECT_EQ(parsed.config, Config{});
}

TEST(ParseTest, ReadsMpsSharing) {
  const Parsed parsed = parse(
      "version: v1\nsharing:\n  mps:\n    renameByDefault: true\n    resources:\n    - name: nvidia.com/gpu\n      "
      "replicas: 4\n",
      "c.yaml");
  EXPECT_TRUE(parsed.problems.empty()) << to_string(parsed.problems.front());
  const Sharing& sharing = parsed.config.sharing;
  EXPECT_EQ(sharing.strategy, SharingStrategy::kMps);
  EXPECT_TRUE(sharing.fail_requests_greater_than_one);
  ASSERT_EQ(sharing.resources.size(), 1u);
  EXPECT_EQ(sharing.resources[0].rename, "nvidia.com/gpu.shared");
  EXPECT_EQ(sharing.resources[0].replicas, 4u);
  EXPECT_EQ(to_string(sharing.resources[0].place), "c.yaml:6:7");
}

}  // namespace
}  // namespace tranche::config
