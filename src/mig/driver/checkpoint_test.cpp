#include "mig/driver/checkpoint.h"

#include <gmock/gmock.h>

namespace tranche::mig {
namespace {

using ::testing::HasSubstr;

constexpr const char* kText =
    R"({"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-a","MigMode":1,"GpuInstances":[{"ProfileID":2,"Placement":{"Start":4,"Size":4},"ComputeInstances":[{"ProfileID":0,"EngProfileID":0},{"ProfileID":1,"EngProfileID":0}]}]},{"UUID":"GPU-b","MigMode":0,"GpuInstances":[]}]}})"
    "\n";

GpuState a_gpu() {
  GpuState gpu;
  gpu.uuid = "GPU-a";
  gpu.name = "NVIDIA A100-PCIE-40GB";
  gpu.capable = gpu.enabled = gpu.pending = true;
  gpu.profiles.push_back({.id = 19, .name = "1g.5gb", .placements = {{0, 1}, {6, 1}}, .number = 0});
  gpu.profiles.push_back({.id = 9, .name = "3g.20gb", .placements = {{0, 4}, {4, 4}}, .number = 2});
  return gpu;
}

TEST(Checkpoint, IsWrittenAndReadAsNvidias) {
  const auto read = parse_checkpoint(kText);
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->gpus.size(), 2u);
  EXPECT_EQ(read->gpus[0].instances[0].place, (Placement{4, 4}));
  EXPECT_EQ(read->gpus[0].instances[0].compute, (std::vector<std::uint32_t>{0, 1}));
  GpuState cut = a_gpu(), off = a_gpu(), without_mig;
  cut.instances.push_back({.id = 1,
                           .profile_id = 9,
                           .placement = {4, 4},
                           .compute = {{.placement = {0, 1}, .number = 0}, {.placement = {1, 2}, .number = 1}}});
  off.uuid = "GPU-b";
  off.enabled = false;
  EXPECT_EQ(checkpoint_text({cut, off, without_mig}), kText);
  const auto as_go =
      parse_checkpoint(R"({"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-b","MigMode":0,"GpuInstances":null}]}})");
  ASSERT_TRUE(as_go) << to_string(as_go.error());
}

TEST(Checkpoint, IsRefusedWithThePlaceOfTheFault) {
  const auto why = [](const char* text) {
    const auto read = parse_checkpoint(text);
    return read ? std::string("accepted") : to_string(read.error());
  };
  EXPECT_THAT(why("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(why(R"({"Version":"v2"})"), HasSubstr("\"v1\""));
  EXPECT_THAT(why(R"({"Version":"v1","MigState":{"Devices":[{"UUID":"a","MigMode":2}]}})"), HasSubstr("Devices[0]"));
  EXPECT_THAT(why(R"({"Version":"v1","MigState":{"Devices":[{"UUID":"a","MigMode":1,"GpuInstances":[{}]}]}})"),
              HasSubstr("GpuInstances[0]"));
  EXPECT_THAT(why(R"({"Version":"v1","MigState":{"Devices":[{"UUID":"a","MigMode":0},{"UUID":"a","MigMode":0}]}})"),
              HasSubstr("same UUID"));
}

TEST(Checkpoint, ReachesPlacementsAndKeepsWhatIsThere) {
  GpuState gpu = a_gpu();
  gpu.instances.push_back({.id = 1, .profile_id = 9, .placement = {4, 4}});
  gpu.instances.push_back({.id = 7, .profile_id = 19, .placement = {0, 1}, .holders = {{"process 4711", 4711}}});
  gpu.instances.back().held = true;
  Checkpoint saved;
  saved.gpus.push_back({"GPU-a", true, {{2, {4, 4}, {2}}}});
  const auto plan = restoring_plan(saved, {gpu}, false, "file");
  ASSERT_TRUE(plan.possible());
  ASSERT_EQ(plan.gpus[0].goes().size(), 1u) << "the 3g.20gb lacks only its compute instance";
  EXPECT_EQ(plan.gpus[0].goes()[0].id, 7u);
  ASSERT_EQ(plan.gpus[0].blockers.size(), 1u);
  EXPECT_EQ(plan.gpus[0].blockers[0].holders[0].who, "process 4711");
  EXPECT_EQ(layout_text(plan.gpus[0].after), "3g.20gb at 4");
}

TEST(Checkpoint, OfADifferentNodeChangesNothing) {
  Checkpoint saved;
  saved.gpus.push_back({"GPU-x", true, {}});
  saved.gpus.push_back({"GPU-a", true, {{9, {0, 4}, {}}}});
  const auto plan = restoring_plan(saved, {a_gpu()}, false, "file");
  EXPECT_FALSE(plan.possible());
  EXPECT_EQ(plan.problems.size(), 2u);
}

}  // namespace
}  // namespace tranche::mig
