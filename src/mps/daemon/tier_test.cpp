#include "mps/daemon/tier.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace tier_test {

using config::TierPolicy;
using ::testing::Contains;
using ::testing::HasSubstr;

// Promise: mps/daemon/tier: The program's help decides which tier is possible.
TEST(Tier, IsKnownByTheOptionsInTheHelp) {
  EXPECT_EQ(abilities_in("OPTIONS:\n  -h,--help   This text\n  -M,--multiuser-server  One server\n"), Abilities{});
  EXPECT_EQ(abilities_in("  -S,--static-partitioning   words\n"), Abilities{});
  EXPECT_EQ(abilities_in("  -S  words\n  -p, --protocol <2|3>  words\n"), Abilities{true});
  EXPECT_EQ(abilities_in("  --protocol <2|3>  words\n"), Abilities{true});
  EXPECT_EQ(abilities_in("  ps [-p PID]\n  quit -p\n"), Abilities{}) << "an argument of a command is no option";
}

TEST(Tier, OfTheDefaultIsV2WhateverTheProgramKnows) {
  EXPECT_EQ(choose_tier(TierPolicy::kAuto, {true}), TierChoice{});
  EXPECT_EQ(choose_tier(TierPolicy::kV2, {}), TierChoice{});
}

// Promise: mps/daemon/tier: A tier that is not possible falls back to v2 with a reason.
TEST(Tier, FallsBackToV2AndSaysWhy) {
  EXPECT_THAT(choose_tier(TierPolicy::kV3, {}).reason,
              HasSubstr("tier: v3 is not in force, v2 is: this MPS control program has no -p"));
}

// Promise: mps/daemon/tier: A tier that was not tried on hardware states so.
TEST(Tier, ThatWasNotTriedOnHardwareSaysSo) {
  const auto v3 = choose_tier(TierPolicy::kV3, {true});
  EXPECT_EQ(v3.tier, Tier::kV3);
  EXPECT_THAT(v3.reason, HasSubstr("tier: v3 is in force; it is written from NVIDIA's manual and was not tried"));
}

// Promise: mps/daemon/tier: A daemon with clients keeps its tier until they have left.
TEST(Tier, OfADaemonWithClientsStaysUntilTheyHaveLeft) {
  const auto choice = until_clients_leave(Tier::kV2, Tier::kV3);
  EXPECT_EQ(choice.tier, Tier::kV2);
  EXPECT_THAT(choice.reason, HasSubstr("the daemon of tier v2 has clients; tier v3 comes in force when"));
}

TEST(Tier, SaysOfEachWhatIsNotEnforced) {
  EXPECT_THAT(not_enforced(Tier::kV2), Contains(HasSubstr("for each process")));
  EXPECT_THAT(not_enforced(Tier::kV2), Contains(HasSubstr("ends all clients of the GPU")));
  EXPECT_THAT(not_enforced(Tier::kV3), Contains(HasSubstr("unless the kernel's limit is set as well")));
}

}  // namespace tier_test
}  // namespace tranche::mps
