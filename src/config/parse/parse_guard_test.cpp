#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/parse/parse_fixture.h"

namespace tranche::config {
namespace parse_guard_test {

using namespace fixture;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string with(const std::string& guard, const std::string& entry = "") {
  return "sharing:\n  mps:\n    guard: " + guard + "\n    resources: [{name: gpu, replicas: 4" + entry + "}]\n";
}
TEST(GuardConfig, WithoutAWordTheNewestProcessIsEndedAndForeignProcessesAreOnlyNamed) {
  const Guard guard = accepted("sharing: {mps: {resources: [{name: gpu, replicas: 4}]}}").sharing.guard;
  EXPECT_EQ(guard.interval, Duration(100ms));
  EXPECT_EQ(guard.memory, GuardMemory::kTerminateNewest);
  EXPECT_EQ(guard.foreign_processes, GuardForeignProcesses::kObserve);
}

TEST(GuardConfig, EveryPolicyCanBeChosenByItsWord) {
  for (const std::string word : {"observe", "terminate-newest", "terminate-all"})
    EXPECT_EQ(to_string(accepted(with("{memory: " + word + "}")).sharing.guard.memory), word);
  for (const std::string word : {"observe", "terminate"})
    EXPECT_EQ(to_string(accepted(with("{foreignProcesses: " + word + "}")).sharing.guard.foreign_processes), word);
  EXPECT_EQ(accepted(with("{interval: 1.5s}")).sharing.guard.interval, Duration(1500ms));
}

TEST(GuardConfig, AResourcesOwnPolicyComesFirst) {
  const auto memory_of = [](const Config& config) { return guard_memory_of(config, config.sharing.resources.at(0)); };
  EXPECT_EQ(memory_of(accepted(with("{memory: observe}", ", guard: {memory: terminate-all}"))),
            GuardMemory::kTerminateAll);
  EXPECT_EQ(memory_of(accepted(with("{memory: observe}"))), GuardMemory::kObserve);
}

TEST(GuardConfig, WhatIsWrongIsReportedWithPlaceAndRemedy) {
  EXPECT_THAT(said(with("{memory: terminate-new}")),
              ElementsAre(HasSubstr("c:3:21: error: sharing.mps.guard.memory: must be observe, "
                                    "terminate-newest or terminate-all, but is \"terminate-new\"; did you mean "
                                    "terminate-newest?")));
  EXPECT_THAT(said(with("{interval: 10ms}")),
              ElementsAre(HasSubstr("guard.interval: must be from 50ms to 10s, but is 10ms; write for example 100ms")));
  EXPECT_THAT(said(with("{interval: soon}")), ElementsAre(HasSubstr("must be a duration, but is \"soon\"")));
  EXPECT_THAT(said(with("{interval: 100}")),
              ElementsAre(HasSubstr("must be a duration, but is the number 100; write for example 100ms")));
  EXPECT_THAT(said(with("strict")), ElementsAre(HasSubstr("sharing.mps.guard: must be a mapping")));
  EXPECT_THAT(said(with("{foreignProcess: observe}")), ElementsAre(HasSubstr("did you mean foreignProcesses?")));
  EXPECT_THAT(said(with("{}", ", guard: {memory: 3}")), ElementsAre(HasSubstr("resources[0].guard.memory: must be")));
  EXPECT_THAT(said(with("{}", ", guard: {interval: 1s}")), ElementsAre(HasSubstr("is not a known key")));
  EXPECT_THAT(said(with("{}", ", guard: 3")), ElementsAre(HasSubstr("resources[0].guard: must be a mapping")));
  EXPECT_THAT(said(with("")), IsEmpty()) << "nothing after it is as good as absent";
}

TEST(GuardConfig, TimeSlicingHasNoGuard) {
  EXPECT_THAT(said("sharing: {timeSlicing: {guard: {}, resources: [{name: gpu, replicas: 4}]}}"),
              ElementsAre(HasSubstr("is not a known key")));
  EXPECT_THAT(said("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4, guard: {memory: observe}}]}}"),
              ElementsAre(HasSubstr("is not a known key")));
}

}  // namespace parse_guard_test
}  // namespace tranche::config
