// What must hold whatever the driver reports, in whatever order.
#include "gpu/health/fault_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "plan/plan.h"
#include "property/generate.h"

namespace tranche::property {
namespace health_test {

using gpu::Cause;
using gpu::FaultLedger;
using gpu::FaultTarget;
using gpu::XidClass;
const std::uint32_t kRounds = rounds(400);
constexpr Duration kQuiet = std::chrono::minutes(5);
const Duration kLongest = gpu::HealthSettings{kQuiet}.longest();

// Two GPUs, the second with two MIG devices.
const std::vector<std::string> kGpus{"GPU-a", "GPU-b"};
const std::vector<FaultTarget> kDevices{{"GPU-a", "GPU-a"}, {"GPU-b", "GPU-b"}, {"MIG-1", "GPU-b"}, {"MIG-2", "GPU-b"}};

plan::Plan plan_of_all() {
  plan::Plan plan;
  auto& resource = plan.resources.emplace_back();
  resource.name = "nvidia.com/gpu";
  for (const char* uuid : {"GPU-a", "MIG-1", "MIG-2"}) {
    auto& device = resource.devices.emplace_back();
    device.uuid = uuid;
    device.gpu_uuid = uuid[0] == 'M' ? "GPU-b" : uuid;
    device.replicated = true;
    device.slots = 2;
  }
  return plan;
}

// The rules in their plainest form, without damping: what is certainly open.
struct Plain {
  std::set<std::string> lost;                 // GPUs
  std::set<std::string> unwatched;            // GPUs
  std::map<std::string, MonoTime> drained;    // by device, the last fault
  std::set<std::string> needs_reset;          // by device
  std::map<std::string, std::uint32_t> asks;  // by GPU

  bool certainly_open(const std::string& device, const std::string& gpu, MonoTime now) const {
    const auto drains = [&](const std::string& uuid) {
      const auto at = drained.find(uuid);
      return at != drained.end() && now - at->second < kQuiet;
    };
    const auto ask = asks.find(gpu);
    return lost.contains(gpu) || unwatched.contains(gpu) || needs_reset.contains(device) || needs_reset.contains(gpu) ||
           drains(device) || drains(gpu) || (ask != asks.end() && ask->second != 0);
  }
  void recovered(const std::string& gpu) {
    for (const auto& device : kDevices) {
      if (device.gpu != gpu) continue;
      drained.erase(device.uuid);
      needs_reset.erase(device.uuid);
    }
  }
};

struct World {
  FaultLedger ledger{{kQuiet}};
  Plain plain;
  MonoTime now{};
  std::uint32_t answers_percent = 50;  // of looks
};

void anything(Random& random, World& w) {
  const FaultTarget device = random.one_of(kDevices);
  const std::string& gpu = device.gpu;
  switch (random.number(0, 6)) {
    case 0:
      w.ledger.fault(device, 54, XidClass::kDrain, random.chance(10), w.now);
      w.plain.drained[device.uuid] = w.now;
      break;
    case 1:
      w.ledger.fault(device, 95, XidClass::kReset, false, w.now);
      w.plain.needs_reset.insert(device.uuid);
      break;
    case 2:
      w.ledger.fault(device, 31, random.chance(50) ? XidClass::kApplication : XidClass::kIgnore, false, w.now);
      break;
    case 3:
      w.ledger.lost(gpu, w.now);
      w.plain.lost.insert(gpu);
      break;
    case 4:
      w.ledger.back(gpu, w.now);
      w.plain.lost.erase(gpu);
      w.plain.asks.erase(gpu);
      w.plain.recovered(gpu);
      break;
    case 5:
      if (random.chance(50)) {
        w.ledger.unwatched(gpu, "a reason");
        w.plain.unwatched.insert(gpu);
      } else {
        w.ledger.watched(gpu);
        w.plain.unwatched.erase(gpu);
      }
      break;
    default: {
      if (w.plain.lost.contains(gpu)) break;  // a lost GPU answers nothing
      const std::uint32_t demand = random.chance(70) ? 0 : random.one_of(std::vector<std::uint32_t>{1, 2, 4});
      const auto before = w.plain.asks.find(gpu);
      if (demand == 0 && before != w.plain.asks.end() && before->second != 0) w.plain.recovered(gpu);
      w.plain.asks[gpu] = demand;
      w.ledger.answered(gpu, demand, w.now);
    }
  }
}

// As the agent does: looks when the ledger wants it, and gets an answer or none.
void pass_time(Random& random, World& w, Duration pause) {
  const MonoTime end = w.now + pause;
  for (auto next = w.ledger.next_change(); next && *next <= end; next = w.ledger.next_change()) {
    w.now = std::max(w.now, *next);
    ASSERT_TRUE(w.ledger.wants_look(w.now));
    for (const auto& gpu : kGpus) {
      if (w.plain.lost.contains(gpu) || !random.chance(w.answers_percent)) continue;
      const auto ask = w.plain.asks.find(gpu);
      w.ledger.answered(gpu, ask == w.plain.asks.end() ? 0 : ask->second, w.now);
    }
  }
  w.now = end;
}

void expect_never_advertised_with_an_open_fault(const World& w) {
  plan::Faults faults;
  for (const auto& [uuid, fault] : w.ledger.faults()) {
    EXPECT_FALSE(fault.why.empty());
    faults.devices[uuid] = fault;
  }
  for (const auto& list : plan::advertise(plan_of_all(), faults)) {
    for (const auto& slot : list.slots) {
      const std::string device = slot.id.substr(0, slot.id.find("::"));
      const std::string gpu = device.starts_with("MIG") ? "GPU-b" : device;
      EXPECT_FALSE(slot.healthy && w.plain.certainly_open(device, gpu, w.now)) << slot.id;
    }
  }
}

template <class Check>
void for_each_history(const Check& check, std::uint32_t answers_percent = 50) {
  for (std::uint32_t seed = 1; seed <= kRounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    World world;
    world.answers_percent = answers_percent;
    const std::uint32_t events = random.number(1, 40);
    const std::uint32_t longest_pause = random.one_of(std::vector<std::uint32_t>{20, 400, 5000});
    for (std::uint32_t i = 0; i < events; ++i) {
      pass_time(random, world, std::chrono::seconds(random.number(0, longest_pause)));
      anything(random, world);
      check(random, world, i + 1 == events);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Promise: health: A device with an open fault is never advertised healthy.
TEST(HealthProperty, ADeviceWithAnOpenFaultIsNeverAdvertisedHealthy) {
  for_each_history([](auto&, const World& world, bool) { expect_never_advertised_with_an_open_fault(world); });
}

// Promise: health: Without new faults each device that can recover does so within the longest quiet period.
TEST(HealthProperty, WithNoMoreFaultsAllThatCanRecoverDoesWithinTheLongestQuietPeriod) {
  for_each_history([](Random&, World& w, bool last) {
    if (!last) return;
    // Everything ends that somebody outside has to end; the rest is left to time and answers.
    for (const auto& gpu : kGpus) {
      if (w.plain.lost.contains(gpu)) w.ledger.back(gpu, w.now);
      w.ledger.watched(gpu);
      if (w.plain.asks.contains(gpu)) w.ledger.answered(gpu, 0, w.now);
    }
    const MonoTime end = w.now + kLongest;
    for (auto next = w.ledger.next_change(); next && *next <= end; next = w.ledger.next_change()) {
      ASSERT_GE(*next, w.now) << "time does not go back";
      w.now = *next;
      ASSERT_TRUE(w.ledger.wants_look(w.now)) << "next_change says when";
      for (const auto& gpu : kGpus) w.ledger.answered(gpu, 0, w.now);
    }
    for (const auto& [uuid, fault] : w.ledger.faults())
      EXPECT_EQ(fault.cause, Cause::kReset) << uuid << ": " << fault.why;
  });
}

// Looks are always answered here: an answer that comes late ends a fault when it comes, which is another moment.
// Promise: health: Time alone heals no device, and no state changes before the predicted moment.
TEST(HealthProperty, BetweenTwoEventsNothingChangesBeforeNextChange) {
  const auto check = [](Random& random, const World& original, bool) {
    World w = original;
    const auto next = w.ledger.next_change();
    if (next && *next <= w.now) return;
    const Duration ahead = next ? *next - w.now : kLongest * 3;
    const MonoTime earlier = w.now + ahead * random.number(0, 99) / 100;
    EXPECT_FALSE(w.ledger.wants_look(earlier));
    for (const auto& gpu : kGpus)
      if (!w.plain.lost.contains(gpu)) w.ledger.answered(gpu, std::nullopt, earlier);
    EXPECT_EQ(w.ledger.faults(), original.ledger.faults());
  };
  for_each_history(check, 100);
}

// Promise: health: Time alone heals no device, and no state changes before the predicted moment.
TEST(HealthProperty, TimeAloneHealsNothingAndAskingDoesNotSpin) {
  for_each_history([](Random&, World w, bool) {
    const auto before = w.ledger.faults();
    for (int i = 0; i < 5; ++i) {
      const auto next = w.ledger.next_change();
      if (!next) return;
      w.now = std::max(w.now, *next);
      EXPECT_TRUE(w.ledger.wants_look(w.now));
      EXPECT_EQ(w.ledger.faults(), before);
      ASSERT_TRUE(w.ledger.next_change());
      EXPECT_GE(*w.ledger.next_change() - w.now, Duration{1});
    }
  });
}

TEST(HealthProperty, EqualHistoriesGiveEqualBooks) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    std::vector<std::map<std::string, gpu::Unhealthy>> ends;
    for (int twice = 0; twice < 2; ++twice) {
      Random random(seed);
      World world;
      for (int i = 0; i < 30; ++i) {
        pass_time(random, world, std::chrono::seconds(random.number(0, 400)));
        anything(random, world);
      }
      ends.push_back(world.ledger.faults());
    }
    EXPECT_EQ(ends[0], ends[1]) << "seed " << seed;
  }
}

}  // namespace health_test
}  // namespace tranche::property
