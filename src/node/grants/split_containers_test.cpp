#include "node/grants/split_containers.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SplitContainers, AreReportedOnceWithTheirPools) {
  SplitContainers split;
  const std::vector<HeldEndpoint> endpoints{{"default", "a", "main", "gpu-2", "g1"},
                                            {"default", "a", "main", "gpu-1", "g2"},
                                            {"default", "a", "side", "gpu-1", "g3"},
                                            {"default", "b", "main", "gpu-1", "g4"},
                                            {"default", "b", "main", "gpu-1", "g5"}};
  const auto reported = split.look(endpoints);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported[0].one.pod, "a");
  EXPECT_THAT(reported[0].pools, ElementsAre("gpu-1", "gpu-2"));
  EXPECT_THAT(reported[0].message, HasSubstr("container main holds slots of 2 MPS pools (gpu-1, gpu-2)"));
  EXPECT_THAT(split.look(endpoints), IsEmpty());
}

TEST(SplitContainers, RequestsOfOneNameOfTwoClaimsAreNone) {
  SplitContainers split;
  const std::vector<HeldEndpoint> endpoints{{"default", "a", "gpu", "gpu-1", "g1", "a-x"},
                                            {"default", "a", "gpu", "gpu-2", "g2", "a-y"}};
  EXPECT_THAT(split.look(endpoints), IsEmpty());
}

TEST(SplitContainers, AreReportedAgainWhenTheyHadGone) {
  SplitContainers split;
  const std::vector<HeldEndpoint> endpoints{{"default", "a", "main", "gpu-1", "g1"},
                                            {"default", "a", "main", "gpu-2", "g2"}};
  EXPECT_EQ(split.look(endpoints).size(), 1u);
  EXPECT_THAT(split.look({}), IsEmpty());
  EXPECT_EQ(split.look(endpoints).size(), 1u);
}

}  // namespace
}  // namespace tranche::agent
