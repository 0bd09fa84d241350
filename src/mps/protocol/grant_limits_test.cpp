#include "mps/protocol/requests.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace grant_limits_test {

TEST(GrantLimits, AreNotMoreThanAGrantCanHave) {
  GrantLimits many;
  for (std::size_t i = 0; i <= kMostGrantDevices; ++i) many.push_back({"GPU-" + std::to_string(i), mib(1), {}});
  EXPECT_FALSE(check_limits(many));
  many.pop_back();
  EXPECT_TRUE(check_limits(many));
  EXPECT_FALSE(check_limits({}));
}

}  // namespace grant_limits_test
}  // namespace tranche::mps
