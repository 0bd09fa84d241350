#include "mig/mig_plan.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "gpu/models/models.h"

namespace tranche::mig {
namespace plan_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Configuration configuration(std::string_view entries) {
  auto parsed = parse_configuration_file("version: v1\nmig-configs:\n  wanted:\n" + std::string(entries), "c.yaml");
  for (const auto& problem : parsed.problems) ADD_FAILURE() << to_string(problem);
  return parsed.file.configurations.empty() ? Configuration{} : parsed.file.configurations[0];
}

Configuration all_of(std::string_view instances) {
  return configuration("  - {devices: all, mig-enabled: true, mig-devices: {" + std::string(instances) + "}}\n");
}

std::vector<std::string> texts(const GpuPlan& gpu) {
  std::vector<std::string> all;
  for (const Step& step : gpu.steps) all.push_back(to_string(step));
  return all;
}

GpuState cut(GpuState gpu, std::string_view instances) {
  gpu.enabled = gpu.pending = true;
  const auto wanted = all_of(instances);
  gpu.instances = choose_layout(gpu.profiles, wanted.entries[0].instances, {})->instances;
  for (std::uint32_t id = 1; auto& instance : gpu.instances) {
    instance.id = id++;
    for (std::uint32_t compute = 0; auto& one : instance.compute) one.id = compute++;
  }
  return gpu;
}

// Promise: mig/plan: On a GPU with MIG on, only instances that the configuration has no place for go; the others stay.
TEST(MigPlan, ChangesOnlyWhatMustChange) {
  const auto gpu = cut((*gpu::simulated_node("A100-SXM4-40GB"))[0], "1g.5gb: 4, 3g.20gb: 1");
  const auto plan = make_plan(all_of("1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1"), {gpu});
  ASSERT_TRUE(plan.possible());
  const GpuPlan& one = plan.gpus[0];
  EXPECT_EQ(one.goes().size(), 2u);
  EXPECT_THAT(
      texts(one),
      ElementsAre("destroy compute instance 0 (1g.5gb) of GPU instance 1", "destroy GPU instance 1 (1g.5gb at slice 0)",
                  "destroy compute instance 0 (1g.5gb) of GPU instance 2", "destroy GPU instance 2 (1g.5gb at slice 1)",
                  "create 2g.10gb at slices 0-1", "create compute instance 2g.10gb in the GPU instance at slices 0-1"));
  EXPECT_THAT(one.blockers, IsEmpty());
  EXPECT_FALSE(plan.as_wanted());
}

TEST(MigPlan, IsEmptyWhereTheGpuIsAsConfigured) {
  const auto gpu = cut((*gpu::simulated_node("H200"))[0], "1g.18gb: 7");
  const auto plan = make_plan(all_of("1g.18gb: 7"), {gpu});
  EXPECT_TRUE(plan.as_wanted());
  EXPECT_THAT(plan.gpus[0].steps, IsEmpty());
  EXPECT_THAT(differences(all_of("1g.18gb: 7"), {gpu}, false), IsEmpty());
}

// Promise: mig/plan: A mode change needs a reset on Ampere, and later only a GPU that no process holds.
TEST(MigPlan, SaysWhetherTheModeChangeNeedsAReset) {
  const auto ampere = make_plan(all_of("7g.40gb: 1"), *gpu::simulated_node("A100-SXM4-40GB"));
  EXPECT_THAT(texts(ampere.gpus[0]), ElementsAre("enable MIG mode", "reset the GPU", "create 7g.40gb at slices 0-7",
                                                 "create compute instance 7g.40gb in the GPU instance at slices 0-7"));
  EXPECT_TRUE(ampere.needs_reset());
  EXPECT_THAT(ampere.gpus[0].mode_why, HasSubstr("Ampere"));
  const auto hopper = make_plan(all_of("7g.141gb: 1"), *gpu::simulated_node("H200"));
  EXPECT_THAT(texts(hopper.gpus[0]), ElementsAre("enable MIG mode", "create 7g.141gb at slices 0-7",
                                                 "create compute instance 7g.141gb in the GPU instance at slices 0-7"));
  EXPECT_FALSE(hopper.needs_reset());
  EXPECT_THAT(hopper.gpus[0].mode_why, HasSubstr("when no process holds the GPU"));
}

TEST(MigPlan, AModeThatWaitsForAResetIsNotSetAgain) {
  auto gpus = *gpu::simulated_node("A100-SXM4-40GB");
  gpus[0].pending = true;
  EXPECT_THAT(texts(make_plan(all_of("7g.40gb: 1"), gpus).gpus[0]), testing::Contains("reset the GPU"));
  EXPECT_THAT(texts(make_plan(all_of("7g.40gb: 1"), gpus).gpus[0]), testing::Not(testing::Contains("enable MIG mode")));
  const auto off = make_plan(configuration("  - {devices: all, mig-enabled: false}\n"), gpus);
  EXPECT_THAT(texts(off.gpus[0]), ElementsAre("disable MIG mode")) << "what waits is taken back, without a reset";
  EXPECT_FALSE(off.needs_reset());
}

TEST(MigPlan, MigOffTakesEveryInstanceAway) {
  const auto gpu = cut((*gpu::simulated_node("H200"))[0], "7g.141gb: 1");
  const auto plan = make_plan(configuration("  - {devices: all, mig-enabled: false}\n"), {gpu});
  EXPECT_THAT(texts(plan.gpus[0]), ElementsAre("destroy compute instance 0 (7g.141gb) of GPU instance 1",
                                               "destroy GPU instance 1 (7g.141gb at slices 0-7)", "disable MIG mode"));
}

// Promise: mig/plan: The plan names who holds instances that must go, and what fits beside them.
TEST(MigPlan, NamesWhoIsInTheWay) {
  auto gpu = cut((*gpu::simulated_node("A100-SXM4-40GB"))[0], "3g.20gb: 2");
  gpu.instances[1].held = true;
  gpu.instances[1].holders = {{"pod default/trainer (container main)", 4711}};
  const auto plan = make_plan(all_of("1g.5gb: 7"), {gpu});
  ASSERT_EQ(plan.gpus[0].blockers.size(), 1u);
  EXPECT_EQ(plan.gpus[0].blockers[0].what, "3g.20gb at slices 4-7");
  EXPECT_EQ(plan.gpus[0].fits_beside, "4 × 1g.5gb");
  EXPECT_TRUE(plan.blocked());
  const auto text = plan_text(plan, false, 100);
  EXPECT_THAT(text, HasSubstr("for pod default/trainer (container main): it holds 3g.20gb at slices 4-7"));
  EXPECT_THAT(text, HasSubstr("4 × 1g.5gb"));
  const auto json = nlohmann::json::parse(plan_json(plan))["gpus"][0];
  EXPECT_EQ(json["waitsFor"][0]["what"], "3g.20gb at slices 4-7");
  EXPECT_EQ(json["fitsBesideHeld"], "4 × 1g.5gb");
  EXPECT_FALSE(make_plan(all_of("1g.5gb: 3, 3g.20gb: 1"), {gpu}).blocked()) << "the held one stays";
}

TEST(MigPlan, ProcessesOnTheWholeGpuBlockAModeChange) {
  auto gpus = *gpu::simulated_node("H200");
  gpus[0].holders = {{"process 99 (dcgm)", 99}};
  const auto plan = make_plan(all_of("7g.141gb: 1"), gpus);
  ASSERT_EQ(plan.gpus[0].blockers.size(), 1u);
  EXPECT_EQ(plan.gpus[0].blockers[0].what, "the whole GPU");
}

TEST(MigPlan, TheLastEntryThatNamesAGpuDecidesAndOthersAreLeftAlone) {
  const auto gpus = *gpu::simulated_node("3xH200");
  const auto plan = make_plan(configuration("  - {devices: [0, 1], mig-enabled: true, mig-devices: {7g.141gb: 1}}\n"
                                            "  - {devices: [1], mig-enabled: false}\n"),
                              gpus);
  EXPECT_FALSE(plan.gpus[0].as_wanted);
  EXPECT_TRUE(plan.gpus[1].as_wanted);
  EXPECT_FALSE(plan.gpus[2].matched);
}

TEST(MigPlan, AnEntryThatCannotBeHadIsRefusedBeforeAnythingChanges) {
  const auto gpus = *gpu::simulated_node("2xH200");
  const auto unknown = make_plan(all_of("1g.5gb: 7"), gpus);
  EXPECT_THAT(to_string(unknown.problems[0]),
              HasSubstr("GPU 0 (NVIDIA H200) has no MIG profile 1g.5gb; its profiles are 1g.18gb, 1g.18gb+me"));
  EXPECT_THAT(unknown.gpus[0].steps, IsEmpty());
  EXPECT_FALSE(unknown.gpus[0].as_wanted);
  EXPECT_THAT(plan_text(unknown, false, 100), HasSubstr("GPUs 0-1  NVIDIA H200  cannot be planned"));
  auto t4 = gpus;
  t4[0].capable = false;
  EXPECT_FALSE(make_plan(configuration("  - {devices: [0], mig-enabled: true, mig-devices: {}}\n"), t4).possible());
  EXPECT_TRUE(make_plan(configuration("  - {devices: all, mig-enabled: true, mig-devices: {}}\n"), t4).possible());
}

// Promise: mig/plan: An index without a GPU is a warning, and so is a configuration that names none of the node's GPUs.
TEST(MigPlan, AnIndexWithoutAGpuIsAWarning) {
  const auto gpus = *gpu::simulated_node("2xH200");
  const auto missing = make_plan(configuration("  - {devices: [1, 5], mig-enabled: false}\n"), gpus);
  EXPECT_TRUE(missing.possible());
  EXPECT_TRUE(missing.gpus[1].as_wanted);
  ASSERT_EQ(missing.problems.size(), 1u);
  EXPECT_THAT(to_string(missing.problems[0]),
              HasSubstr("c.yaml:4:5: warning: devices: names GPU 5, which is not on this node or does not answer"));
  const auto other =
      make_plan(configuration("  - {device-filter: \"0x2AAA10DE\", devices: all, mig-enabled: false}\n"), gpus);
  EXPECT_TRUE(other.possible());
  ASSERT_EQ(other.problems.size(), 1u);
  EXPECT_THAT(
      to_string(other.problems[0]),
      HasSubstr("warning: mig-configs.wanted: has no entry for the GPUs of this node, which stay as they are: GPU "
                "0 (NVIDIA H200) 0x233510DE, GPU 1"));
}

TEST(MigPlan, ModeOnlyLeavesInstancesAlone) {
  const auto gpu = cut((*gpu::simulated_node("H200"))[0], "1g.18gb: 7");
  EXPECT_TRUE(make_plan(all_of("7g.141gb: 1"), {gpu}, true).as_wanted());
}

TEST(MigAssert, ListsEveryDifference) {
  const auto cut_gpu = cut((*gpu::simulated_node("H200"))[0], "1g.18gb: 2");
  EXPECT_THAT(differences(all_of("1g.18gb: 7"), {cut_gpu}, false),
              ElementsAre("GPU 0 (NVIDIA H200): it has 2 × 1g.18gb, and the configuration asks for 7 × 1g.18gb"));
  EXPECT_THAT(differences(all_of("1g.18gb: 7"), {cut_gpu}, true), IsEmpty());
  EXPECT_THAT(differences(all_of("1g.18gb: 7"), *gpu::simulated_node("H200"), true),
              ElementsAre(HasSubstr("MIG is off")));
  EXPECT_THAT(
      differences(configuration("  - {devices: [1], mig-enabled: false}\n"), *gpu::simulated_node("2xH200"), false),
      ElementsAre(HasSubstr("GPU 0 (NVIDIA H200): no entry")));
  EXPECT_THAT(
      differences(configuration("  - {devices: [1], mig-enabled: false}\n"), *gpu::simulated_node("2xH200"), true),
      IsEmpty());
  GpuState without_mig;
  without_mig.index = 1;
  without_mig.name = "Tesla T4";
  EXPECT_THAT(
      differences(configuration("  - {devices: [1], mig-enabled: true, mig-devices: {}}\n"), {without_mig}, true),
      ElementsAre("GPU 1 (Tesla T4) does not support MIG"));
  auto unfinished = cut_gpu;
  unfinished.instances.push_back({.id = 9, .profile_id = 19, .placement = {6, 1}});
  EXPECT_THAT(differences(all_of("1g.18gb: 2"), {unfinished}, false),
              ElementsAre(HasSubstr("GPU instance 9 (1g.18gb) has no compute instance")));
}

TEST(MigPlan, TextPutsGpusTogetherThatChangeAlike) {
  const auto text = plan_text(make_plan(all_of("7g.141gb: 1"), *gpu::simulated_node("3xH200")), false, 100);
  EXPECT_THAT(text, ::testing::StartsWith("GPUs 0-2  NVIDIA H200  MIG is switched on\n"));
  EXPECT_THAT(text, HasSubstr("made  7g.141gb  slices 0-7  whole"));
}

TEST(MigPlan, IsADocumentForPrograms) {
  const auto gpu = cut((*gpu::simulated_node("A100-SXM4-40GB"))[0], "3g.20gb: 2");
  const auto document = nlohmann::json::parse(plan_json(make_plan(all_of("3g.20gb: 1, 1g.5gb: 1"), {gpu})));
  EXPECT_EQ(document["gpus"][0]["stays"].size(), 1u);
  EXPECT_EQ(document["gpus"][0]["goes"][0]["profile"], "3g.20gb");
  EXPECT_EQ(document["gpus"][0]["made"][0]["profile"], "1g.5gb");
  EXPECT_EQ(document["gpus"][0]["steps"][0]["step"], "destroyComputeInstance");
  EXPECT_EQ(document["possible"], true);
}

}  // namespace plan_test
}  // namespace tranche::mig
