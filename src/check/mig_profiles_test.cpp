// What GPUs can be cut into, on simulated nodes: names, memory, slices and counts are those of the tables of the
// driver.
#include "check/mig_profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "host/nvml/sim_fixture.h"

namespace tranche::check {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<MigChoice> look(host::nvml::SimFixture& sim) {
  CheckOptions options;
  options.root = sim.root();
  auto choices = mig_choices(options);
  if (choices) return *std::move(choices);
  ADD_FAILURE() << to_string(choices.error());
  return {};
}

std::vector<std::string> names(const MigChoice& choice) {
  std::vector<std::string> all;
  for (const auto& profile : choice.profiles) all.push_back(profile.name);
  return all;
}

// Promise: driver/mig: The stand-in lists the MIG profiles that an H200's driver lists.
TEST(MigProfiles, OfAnH200AreThoseThatItsDriverLists) {
  host::nvml::SimFixture sim("gpus: {profile: H200, count: 1}\n");
  const auto choices = look(sim);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_TRUE(choices[0].capable);
  EXPECT_FALSE(choices[0].enabled);
  EXPECT_THAT(
      choices[0].profiles,
      ElementsAre(host::MigProfile{"1g.18gb", 1, mib(16384), 16, 7},
                  host::MigProfile{"1g.18gb+me", 1, mib(16384), 16, 1},
                  host::MigProfile{"1g.35gb", 1, mib(33280), 26, 4}, host::MigProfile{"2g.35gb", 2, mib(33280), 32, 3},
                  host::MigProfile{"3g.71gb", 3, mib(71424), 60, 2}, host::MigProfile{"4g.71gb", 4, mib(71424), 64, 1},
                  host::MigProfile{"7g.141gb", 7, mib(143360), 132, 1}));
}

TEST(MigProfiles, AreTheSameWhileMigIsOn) {
  host::nvml::SimFixture sim("gpus: [{profile: A100-PCIE-40GB}, {profile: A100-PCIE-40GB, mig: [3g.20gb]}]\n");
  const auto choices = look(sim);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_TRUE(choices[1].enabled);
  EXPECT_EQ(choices[0].profiles, choices[1].profiles);
  EXPECT_THAT(names(choices[0]),
              ElementsAre("1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"));
}

TEST(MigProfiles, StandTogetherWhereTheGpusAreAlike) {
  host::nvml::SimFixture sim("gpus: [{profile: H200}, {profile: T4}, {profile: H200}]\n");
  const auto choices = look(sim);
  const auto text = choices_text(choices, false);
  EXPECT_THAT(text, HasSubstr("GPUs 0 and 2  NVIDIA H200  MIG off\n"));
  EXPECT_THAT(text, HasSubstr("GPU 1  Tesla T4  cannot be cut by MIG\n"));
  EXPECT_THAT(text, HasSubstr("nvidia.com/mig-1g.18gb.me\n"));
  EXPECT_THAT(choices[1].profiles, IsEmpty());
}

TEST(MigProfiles, AreADocumentForPrograms) {
  host::nvml::SimFixture sim("gpus: {profile: H200, count: 1}\n");
  const auto document = nlohmann::json::parse(choices_json(look(sim)));
  EXPECT_EQ(document[0]["migCapable"], true);
  EXPECT_EQ(document[0]["profiles"][1], nlohmann::json::parse(R"({"profile": "1g.18gb+me",
    "resource": "nvidia.com/mig-1g.18gb.me", "memoryBytes": 17179869184, "slices": 1, "smCount": 16, "atMost": 1})"));
}

TEST(MigProfiles, SayWhyThereAreNone) {
  host::nvml::SimFixture sim("gpus: {profile: H200, count: 1}\n");
  sim.fail_call("nvmlDeviceGetGpuInstanceProfileInfo", 0, 999);
  const auto choices = look(sim);
  EXPECT_THAT(choices[0].why, HasSubstr("cannot list the MIG profiles"));
  sim.fail_call("nvmlDeviceGetGpuInstanceProfileInfo", 0, 3);
  EXPECT_THAT(look(sim)[0].why, HasSubstr("older than 550"));
  EXPECT_THAT(choices_text(look(sim), false), Not(HasSubstr("PROFILE")));
}

TEST(MigProfiles, WithoutADriverAreAnErrorThatSaysSo) {
  host::nvml::SimFixture sim("gpus: {profile: H200, count: 1}\n");
  sim.node().set_driver_present(false);
  CheckOptions options;
  options.root = sim.root();
  EXPECT_FALSE(mig_choices(options));
}

}  // namespace
}  // namespace tranche::check
