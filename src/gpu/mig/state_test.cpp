#include "gpu/mig/state.h"

#include <gmock/gmock.h>

namespace tranche::mig {
namespace profile_test {

using ::testing::ElementsAre;

TEST(MigProfileName, IsTakenApartAndPutTogether) {
  for (const char* text : {"1g.5gb", "1g.10gb+me", "7g.141gb", "1c.3g.20gb", "2c.7g.80gb", "1g.24gb+gfx",
                           "1g.24gb+me.all", "1g.24gb-me", "1c.2g.48gb-me"}) {
    const auto name = parse_profile_name(text);
    ASSERT_TRUE(name) << text;
    EXPECT_EQ(to_string(*name), text);
  }
  const auto part = parse_profile_name("1c.3g.20gb");
  EXPECT_EQ(part->gpu_instance(), "3g.20gb");
  EXPECT_FALSE(part->whole());
  EXPECT_EQ(to_string(*parse_profile_name("3c.3g.20gb")), "3g.20gb") << "mig-parted's name of the whole instance";
}

TEST(MigProfileName, IsRefusedWhereItIsNone) {
  for (const char* text :
       {"", "1g", "1g.5", "g.5gb", "0g.5gb", "1g.0gb", "1g.5gb+", "1g.5gb+1", "1g.5gb me", "1g.5gb+me+", "4c.3g.20gb",
        "1g.5gbme", " 1g.5gb", "1g.5gb ", "-1g.5gb", "1G.5GB", "99999999999g.5gb"})
    EXPECT_FALSE(parse_profile_name(text)) << text;
}

TEST(MigProfile, PlacementsOfComputeInstancesAreTheDrivers) {
  EXPECT_THAT(compute_placements(3, 1), ElementsAre(Placement{0, 1}, Placement{1, 1}, Placement{2, 1}));
  EXPECT_THAT(compute_placements(3, 2), ElementsAre(Placement{0, 2}));
  EXPECT_THAT(compute_placements(4, 2), ElementsAre(Placement{0, 2}, Placement{2, 2}));
  EXPECT_THAT(compute_placements(7, 2), ElementsAre(Placement{0, 2}, Placement{2, 2}, Placement{4, 2}));
  EXPECT_THAT(compute_placements(7, 3), ElementsAre(Placement{0, 3}, Placement{4, 3}));
  EXPECT_THAT(compute_placements(7, 4), ElementsAre(Placement{0, 4}));
  EXPECT_THAT(compute_placements(7, 7), ElementsAre(Placement{0, 7}));
  EXPECT_TRUE(compute_placements(2, 3).empty());
}

TEST(MigProfile, IsFoundByANameThatDiffersByOneGigabyte) {
  std::vector<Profile> profiles(2);
  profiles[0] = {9, "3g.39gb", 3, 0, 0, 2, {}, {}};
  profiles[1] = {14, "2g.20gb", 2, 0, 0, 3, {}, {}};
  EXPECT_EQ(resolve_profile(profiles, *parse_profile_name("3g.40gb")), &profiles[0]);
  EXPECT_EQ(resolve_profile(profiles, *parse_profile_name("3g.41gb")), nullptr);
  EXPECT_EQ(resolve_profile(profiles, *parse_profile_name("3g.40gb+me")), nullptr);
}

}  // namespace profile_test
}  // namespace tranche::mig
