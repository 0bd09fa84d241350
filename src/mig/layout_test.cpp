// The search against cases worked out by hand; tests/property/mig_test.cpp compares it with every layout there is.
#include "mig/mig_plan.h"

#include <gmock/gmock.h>

#include "gpu/models/models.h"

namespace tranche::mig {
namespace layout_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<Profile>& profiles_of(std::string_view key) {
  return gpu::find_model(key)->profiles;
}

Instances set_of(std::initializer_list<std::pair<const char*, std::uint32_t>> list) {
  Instances wanted;
  for (const auto& [name, count] : list) wanted[*parse_profile_name(name)] += count;
  return wanted;
}

GpuInstance instance(std::uint32_t id, std::uint32_t profile_id, Placement at, bool held = false) {
  const Profile* profile = find_profile(profiles_of("A100-SXM4-40GB"), profile_id);
  GpuInstance one{.id = id, .profile_id = profile_id, .placement = at};
  one.compute.push_back({.id = 0, .placement = {0, profile->slices}});
  one.held = held;
  return one;
}

std::vector<Placement> places(const ChosenLayout& layout) {
  std::vector<Placement> all;
  for (const GpuInstance& part : layout.instances) all.push_back(part.placement);
  return all;
}

TEST(MigLayout, TakesSetsThatLargestFirstAtTheLowestSliceCannotPlace) {
  for (const auto& wanted :
       {set_of({{"3g.20gb", 1}, {"2g.10gb", 2}}), set_of({{"4g.20gb", 1}, {"1g.10gb", 1}, {"1g.5gb", 2}}),
        set_of({{"1g.10gb", 1}, {"1g.5gb", 6}}), set_of({{"1g.5gb", 2}, {"2g.10gb", 1}, {"3g.20gb", 1}}),
        set_of({{"1g.5gb", 6}, {"1g.5gb+me", 1}})}) {
    const auto layout = choose_layout(profiles_of("A100-SXM4-40GB"), wanted, {});
    ASSERT_TRUE(layout) << to_string(wanted) << ": " << layout.error().what;
    EXPECT_EQ(layout->cost.held_destroyed, 0u);
  }
}

// A busy 1g in the middle of the GPU stays, and the 3g goes to the other half.
TEST(MigLayout, KeepsBusyInstancesWhereTheyLie) {
  const std::vector<GpuInstance> present{instance(7, 19, {0, 1}), instance(8, 19, {1, 1}),
                                         instance(9, 19, {2, 1}, true), instance(11, 19, {4, 1}),
                                         instance(12, 19, {5, 1})};
  const auto layout =
      choose_layout(profiles_of("A100-SXM4-40GB"), set_of({{"1g.5gb", 2}, {"2g.10gb", 1}, {"3g.20gb", 1}}), present);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->cost.held_destroyed, 0u);
  EXPECT_EQ(layout->cost.instances_destroyed, 4u) << "three where the 3g and the 2g go; one more 1g than is wanted";
  EXPECT_THAT(layout->instances, ::testing::Contains(GpuInstance{kNotMadeYet, 19, {2, 1}, {{kNotMadeYet, {0, 1}}}}));
}

TEST(MigLayout, DestroysNothingWhereTheSetIsThereAlready) {
  const std::vector<GpuInstance> present{instance(2, 9, {4, 4}), instance(3, 14, {0, 2}), instance(9, 19, {2, 1}),
                                         instance(10, 19, {3, 1})};
  const auto layout =
      choose_layout(profiles_of("A100-SXM4-40GB"), set_of({{"1g.5gb", 2}, {"2g.10gb", 1}, {"3g.20gb", 1}}), present);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->cost, Cost{});
}

TEST(MigLayout, AnInstanceWithoutAComputeInstanceIsFinishedInsteadOfMadeAnew) {
  std::vector<GpuInstance> present{instance(1, 9, {0, 4})};
  present[0].compute.clear();
  const auto layout = choose_layout(profiles_of("A100-SXM4-40GB"), set_of({{"3g.20gb", 2}}), present);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->cost, (Cost{0, 0, 0, 1, 1}));
}

TEST(MigLayout, PartsOfAnInstanceShareIt) {
  const auto layout = choose_layout(profiles_of("A100-SXM4-40GB"), set_of({{"1c.3g.20gb", 3}, {"2c.3g.20gb", 1}}), {});
  ASSERT_TRUE(layout);
  ASSERT_EQ(layout->instances.size(), 2u);
  std::size_t compute = 0;
  for (const GpuInstance& part : layout->instances) compute += part.compute.size();
  EXPECT_EQ(compute, 4u);
}

TEST(MigLayout, ComputeInstancesThatMayStayDo) {
  std::vector<GpuInstance> present{instance(1, 9, {0, 4})};
  present[0].compute = {{.id = 0, .placement = {0, 1}},
                        {.id = 1, .placement = {1, 1}, .uuid = {}, .held = true},
                        {.id = 2, .placement = {2, 1}}};
  const auto layout = choose_layout(profiles_of("A100-SXM4-40GB"), set_of({{"1c.3g.20gb", 2}}), present);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->cost, (Cost{0, 0, 1, 0, 0}));
  EXPECT_THAT(layout->instances[0].compute, ::testing::Contains(ComputeInstance{kNotMadeYet, {1, 1}}))
      << "the held one";
  const auto larger =
      choose_layout(profiles_of("A100-SXM4-40GB"), set_of({{"1c.3g.20gb", 1}, {"2c.3g.20gb", 1}}), present);
  ASSERT_TRUE(larger);
  EXPECT_EQ(larger->cost.held_destroyed, 0u) << "the 2c goes into a second instance";
}

TEST(MigLayout, SaysWhyASetHasNone) {
  const auto& a100 = profiles_of("A100-SXM4-40GB");
  EXPECT_THAT(choose_layout(a100, set_of({{"3g.71gb", 1}}), {}).error().what, HasSubstr("no profile 3g.71gb"));
  EXPECT_THAT(choose_layout(a100, set_of({{"3g.71gb", 1}}), {}).error().remedy, HasSubstr("1g.5gb+me"));
  EXPECT_THAT(choose_layout(a100, set_of({{"1g.5gb", 8}}), {}).error().remedy, HasSubstr("at most 7"));
  EXPECT_THAT(choose_layout(a100, set_of({{"4g.20gb", 1}, {"3g.20gb", 1}, {"1g.5gb", 1}}), {}).error().what,
              HasSubstr("take 8 compute slices and the GPU has 7"));
  EXPECT_THAT(choose_layout(a100, set_of({{"3g.20gb", 2}, {"1g.5gb", 1}}), {}).error().what, HasSubstr("overlap"));
  EXPECT_THAT(choose_layout(profiles_of("A30"), set_of({{"1g.6gb+me", 1}, {"2g.12gb+me", 1}}), {}).error().what,
              HasSubstr("media engines"));
  EXPECT_THAT(
      choose_layout(profiles_of("RTX-PRO-6000"), set_of({{"1g.24gb+me.all", 1}, {"1g.24gb", 1}}), {}).error().what,
      HasSubstr("each other instance must be one with -me"));
  EXPECT_TRUE(choose_layout(profiles_of("RTX-PRO-6000"), set_of({{"1g.24gb+me.all", 1}, {"1g.24gb-me", 3}}), {}));
  EXPECT_THAT(choose_layout({}, set_of({{"1g.5gb", 1}}), {}).error().what, HasSubstr("not known"));
  auto unplaced = profiles_of("A100-SXM4-40GB");
  for (auto& profile : unplaced) profile.placements.clear();
  EXPECT_THAT(choose_layout(unplaced, set_of({{"1g.5gb", 1}}), {}).error().what, HasSubstr("placements of 1g.5gb"));
}

TEST(MigLayout, SaysWhatFitsBesideHeldInstances) {
  const std::vector<GpuInstance> present{instance(0, 0, {0, 8}, true)};
  EXPECT_THAT(largest_beside(profiles_of("A100-SXM4-40GB"), set_of({{"1g.5gb", 7}}), present), testing::IsEmpty());
  const std::vector<GpuInstance> half{instance(1, 9, {0, 4}, true)};
  EXPECT_EQ(largest_beside(profiles_of("A100-SXM4-40GB"), set_of({{"1g.5gb", 7}}), half), set_of({{"1g.5gb", 3}}));
  EXPECT_EQ(largest_beside(profiles_of("A100-SXM4-40GB"), set_of({{"3g.20gb", 2}}), half), set_of({{"3g.20gb", 2}}));
}

TEST(MigLayout, CountsTheRoomThatIsLeft) {
  const auto& a100 = profiles_of("A100-SXM4-40GB");
  const auto room = [&](const char* name, const std::vector<GpuInstance>& present) {
    return room_for(a100, *find_profile(a100, name), present);
  };
  EXPECT_EQ(room("1g.5gb", {}), 7u);
  EXPECT_EQ(room("1g.10gb", {}), 4u);
  const std::vector<GpuInstance> half{instance(2, 9, {4, 4})};
  EXPECT_EQ(room("1g.5gb", half), 4u);
  EXPECT_EQ(room("4g.20gb", half), 1u);
  EXPECT_EQ(room("7g.40gb", half), 0u);
  EXPECT_THAT(free_placements(*find_profile(a100, "2g.10gb"), half), ElementsAre(Placement{0, 2}, Placement{2, 2}));
  const std::vector<GpuInstance> hole{instance(8, 19, {1, 1}), instance(12, 19, {5, 1})};
  EXPECT_EQ(room("3g.20gb", hole), 0u) << "six slices are free, and no four beside each other";
}

}  // namespace layout_test
}  // namespace tranche::mig
