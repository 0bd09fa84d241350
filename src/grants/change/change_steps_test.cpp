#include "grants/change/change.h"

#include <gmock/gmock.h>

#include "grants/change/plan_fixture.h"

namespace tranche::grants {
namespace {

using namespace fixture;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Steps, OfAnEqualPlanAreNone) {
  EXPECT_THAT(texts_of(steps(all_mps(8, 10), all_mps(8, 10))), IsEmpty());
}

TEST(Steps, OfMoreOrFewerSlotsStateTheLimitsOfASlotFromThenOn) {
  EXPECT_THAT(
      texts_of(steps(all_mps(4, 5), all_mps(4, 10))),
      ElementsAre("nvidia.com/gpu on GPUs 0-3: a slot has 10240 MiB and 10 SMs (10 %) instead of 20480 MiB "
                  "and 20 SMs (20 %) (for containers to come, those that run keep theirs)",
                  "pool gpu-0: a client gets at most 10240 MiB and 10 SMs (10 %) (takes effect with the next client)",
                  "pool gpu-1: a client gets at most 10240 MiB and 10 SMs (10 %) (takes effect with the next client)",
                  "pool gpu-2: a client gets at most 10240 MiB and 10 SMs (10 %) (takes effect with the next client)",
                  "pool gpu-3: a client gets at most 10240 MiB and 10 SMs (10 %) (takes effect with the next client)",
                  "nvidia.com/gpu on GPUs 0-3: 5 → 10 slots"));
  EXPECT_THAT(texts_of(steps(all_sliced(2, 5), all_sliced(2, 1))),
              ElementsAre("nvidia.com/gpu on GPUs 0-1: 5 → 1 slot (held slots stay until they are free)"));
}

TEST(Steps, OfARenamedResourceLetTheOldNameGoFirst) {
  EXPECT_THAT(texts_of(steps(all_mps(1, 4), all_mps(1, 4, "nvidia.com/gpu.shared"))),
              ElementsAre("nvidia.com/gpu vanishes with its 4 slots (held slots stay until they are free)",
                          "nvidia.com/gpu.shared appears with 4 slots"));
}

TEST(Steps, OfAResourceWithoutSlotsSayThatItComesAndGoes) {
  const auto without = plan_of({named(kGpu, {sliced(0, 2)})});
  const auto with = plan_of({named(kGpu, {sliced(0, 2)}), named("nvidia.com/mig-1g.10gb", {})});
  EXPECT_THAT(texts_of(steps(without, with)), ElementsAre("nvidia.com/mig-1g.10gb appears without slots"));
  EXPECT_THAT(texts_of(steps(with, without)), ElementsAre("nvidia.com/mig-1g.10gb vanishes without slots"));
  EXPECT_THAT(texts_of(steps(with, plan_of({named(kGpu, {sliced(0, 3)}), with.resources[1]}))),
              ElementsAre("nvidia.com/gpu on GPU 0: 2 → 3 slots"));
}

TEST(Steps, OfOtherMeansNameTheGpus) {
  const auto after = plan_of({named(kGpu, {mps(0, 4), mps(1, 4), sliced(2, 4)})});
  EXPECT_THAT(texts_of(steps(all_sliced(3, 4), after)),
              ElementsAre("GPUs 0-1: time-slicing → MPS (as soon as nothing of it is held)"));
}

}  // namespace
}  // namespace tranche::grants
