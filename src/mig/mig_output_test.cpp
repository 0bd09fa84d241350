#include "mig/mig_plan.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "gpu/models/models.h"

namespace tranche::mig {
namespace profiles_test {

using ::testing::HasSubstr;

TEST(MigProfiles, StandTogetherWhereTheGpusAreAlike) {
  auto gpus = *gpu::simulated_node("3xH200");
  gpus[1].name = "Tesla T4";
  gpus[1].capable = false;
  gpus[1].profiles.clear();
  const auto text = profiles_text(gpus, false);
  EXPECT_THAT(text, HasSubstr("GPUs 0 and 2  NVIDIA H200  MIG off\n"));
  EXPECT_THAT(text, HasSubstr("GPU 1  Tesla T4  does not support MIG\n"));
  EXPECT_THAT(text, HasSubstr("nvidia.com/mig-1g.18gb.me\n"));
  gpus[2].enabled = true;
  gpus[2].instances = {{.id = 1, .profile_id = 9, .placement = {4, 4}}};
  EXPECT_THAT(profiles_text(gpus, false), HasSubstr("GPU 2  NVIDIA H200  MIG on\n"));
  gpus[0].enabled = true;
  gpus[0].instances = {
      {.id = 1, .profile_id = 9, .placement = {4, 4}, .compute = {{.placement = {0, 3}, .held = true}}}};
  gpus[2].instances[0].compute = {{.placement = {0, 3}}};
  EXPECT_THAT(profiles_text(gpus, false), HasSubstr("GPU 2  NVIDIA H200  MIG on\n")) << "one is in use";
}

TEST(MigProfiles, AreADocumentForPrograms) {
  auto gpus = *gpu::simulated_node("H200");
  gpus[0].enabled = true;
  gpus[0].instances = {
      {.id = 1, .profile_id = 9, .placement = {4, 4}, .compute = {{.id = 0, .placement = {0, 3}, .uuid = "MIG-1"}}}};
  const auto document = nlohmann::json::parse(profiles_json(gpus));
  EXPECT_EQ(document[0]["migCapable"], true);
  EXPECT_EQ(document[0]["profiles"][3], nlohmann::json::parse(R"({"profile": "2g.35gb", "id": 14,
    "resource": "nvidia.com/mig-2g.35gb", "memoryBytes": 34896609280, "slices": 2, "smCount": 32, "atMost": 3, "free": 2,
    "placements": [{"start": 0, "size": 2}, {"start": 2, "size": 2}, {"start": 4, "size": 2}],
    "freePlacements": [{"start": 0, "size": 2}, {"start": 2, "size": 2}]})"));
  EXPECT_EQ(document[0]["instances"][0], nlohmann::json::parse(R"({"gpuInstance": 1, "profile": "3g.71gb", "start": 4,
    "size": 4, "devices": ["MIG-1"], "inUse": false})"));
}

TEST(MigProfiles, SayWhyThereAreNone) {
  auto gpus = *gpu::simulated_node("H200");
  gpus[0].profiles.clear();
  EXPECT_THAT(profiles_text(gpus, false), HasSubstr("older than 550"));
  EXPECT_THAT(profiles_text(gpus, false), testing::Not(HasSubstr("PROFILE")));
}

// A figure that no source gives is left open, not invented.
TEST(MigProfiles, LeaveUnknownFiguresOpen) {
  EXPECT_THAT(profiles_text(*gpu::simulated_node("GB200"), false), HasSubstr("3g.93gb     9   -"));
}

}  // namespace profiles_test
}  // namespace tranche::mig
