#include "guard/pace.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace pace_test {

using namespace std::chrono_literals;

constexpr const char* kGpu = "GPU-1";
constexpr const char* kGrant = "00ff11ee22dd33cc";
constexpr const char* kOther = "1111111111111111";
constexpr Duration kInterval = 100ms;
constexpr std::uint64_t kLimitMiB = 20389;

class Pacing : public testing::Test {
 protected:
  Pacing() {
    for (const char* grant : {kGrant, kOther})
      limits_[{grant, kGpu}] = {"gpu-1", "nvidia.com/gpu", mib(kLimitMiB), config::GuardMemory::kTerminateNewest};
  }
  void hold(pid_t pid, std::uint64_t memory_mib, const std::string& grant = kGrant) {
    std::erase_if(device_.processes, [pid](const Process& each) { return each.id.pid == pid; });
    device_.processes.push_back(
        {.id = {pid, static_cast<std::uint64_t>(pid)}, .memory = mib(memory_mib), .mps_client = true, .grant = grant});
  }
  Pace pace(Duration later = kInterval) {
    now_ += later;
    Pace pace{.every = kInterval};
    hasten(pace, device_, limits_, clients_, memory_, kInterval, now_);
    return pace;
  }

  MonoTime now_{1000s};
  std::map<GrantOnDevice, Limit> limits_;
  std::map<pid_t, std::string> clients_;
  PaceMemory memory_;
  Device device_{.uuid = kGpu, .pool = "gpu-1", .processes = {}};
};

TEST_F(Pacing, IsTheIntervalWhereNoGrantHasAnything) {
  EXPECT_EQ(pace(), Pace{.every = kInterval});
  hold(7, 80000, "");
  EXPECT_EQ(pace(), Pace{.every = kInterval}) << "no limit, nothing to cross";
}

// The promise of docs/internals/guard.md: a program that allocates as fast as any, from its first moment on.
// Promise: guard: A program that only allocates is stopped before it has 2 GiB more than its share.
TEST_F(Pacing, AProgramThatOnlyAllocatesIsSeenBeforeItHoldsTwoGibMoreThanItsLimit) {
  constexpr Duration kStep = 2ms, kLatency = 1ms;
  constexpr std::uint64_t kStepMiB = 512;
  for (Duration begins = 0ms; begins < kInterval; begins += 1ms) {
    memory_ = {};
    clients_ = {{7, kGrant}};
    MonoTime next = now_ + pace(0ms).every;
    const MonoTime start = now_ + begins;
    int samples = 0;
    for (;; ++samples) {
      const auto held = [&](MonoTime at) {
        return at < start ? 0 : kStepMiB * (1 + static_cast<std::uint64_t>((at - start) / kStep));
      };
      now_ = next;
      if (held(now_) > 0) hold(7, held(now_));
      if (held(now_) > kLimitMiB + kRounding.in_mib()) {
        ASSERT_LE(held(now_ + kLatency), kLimitMiB + 2048) << "begun after " << begins / 1ms << " ms";
        break;
      }
      next = now_ + pace(0ms).every;
    }
    ASSERT_LT(samples, 100);
    device_.processes.clear();
    now_ += 1s;
  }
}

TEST_F(Pacing, IsTheFasterTheCloserAGrantIsToItsLimit) {
  hold(7, 100);
  EXPECT_EQ(pace().every, 32ms) << "20 GiB at 512 GiB/s take 40";
  hold(7, 12000);
  EXPECT_EQ(pace().every, 16ms);
  hold(7, kLimitMiB);
  EXPECT_EQ(pace().every, kFastPace);
  hold(7, kLimitMiB * 2);
  EXPECT_EQ(pace().every, kFastPace) << "others of the grant may still allocate";
}

// Promise: guard: A grant at rest is watched by the GPU's total.
TEST_F(Pacing, RestsWhenNothingHasGrownForAWhileAndGlancesAtTheTotal) {
  hold(7, kLimitMiB);
  const Pace first = pace();
  EXPECT_EQ(first.look_again, now_ + kMovesFor);
  EXPECT_EQ(pace(kMovesFor - 1ms), first);
  EXPECT_EQ(pace(1ms), (Pace{.every = kInterval, .glance = kGlance}));
  hold(7, 10000);
  EXPECT_EQ(pace().glance, kGlance);
  hold(7, 12000);
  EXPECT_EQ(pace().every, 16ms) << "it grows again";
}

TEST_F(Pacing, SlowGrowthAddsUp) {
  hold(7, 20000);
  pace();
  pace(kMovesFor);
  for (std::uint64_t more = 1; more <= 8; ++more) {
    hold(7, 20000 + more);
    EXPECT_EQ(pace().every, kInterval) << more;
  }
  hold(7, 20009);
  EXPECT_EQ(pace().every, kFastPace);
}

TEST_F(Pacing, AClientThatOnlyTheRelayKnowsIsAwaited) {
  hold(7, kLimitMiB);
  pace();
  ASSERT_EQ(pace(kMovesFor).every, kInterval);
  clients_ = {{8, kGrant}};
  EXPECT_EQ(pace().every, kFastPace);
  EXPECT_EQ(pace(kMovesFor).every, kInterval) << "it never made a context";
  hold(8, 1);
  EXPECT_EQ(pace().every, kFastPace) << "now it has";
}

TEST_F(Pacing, WhereNobodyIsStoppedThereIsNoHurry) {
  hold(7, kLimitMiB);
  limits_[{kGrant, kGpu}].policy = config::GuardMemory::kObserve;
  EXPECT_EQ(pace(), Pace{.every = kInterval});
}

// Promise: guard: A grant far from its limit is sampled at the interval.
TEST_F(Pacing, AGrantWithRoomForMoreThanAnIntervalIsNotInAHurry) {
  limits_[{kGrant, kGpu}].memory = mib(140000);
  hold(7, 1000);
  EXPECT_EQ(pace(), Pace{.every = kInterval});
  hold(8, kLimitMiB, kOther);
  EXPECT_EQ(pace().every, kFastPace) << "the device goes by the one that is closest to its limit";
}

}  // namespace pace_test
}  // namespace tranche::guard
