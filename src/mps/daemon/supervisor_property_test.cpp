// After any order of events the supervisor can still reach Serving, or it is in GivenUp and desired limits bring it to
// Serving.
#include <gtest/gtest.h>

#include <random>

#include "mps/daemon/supervisor.h"

namespace tranche::mps {
namespace supervisor_property_test {

using namespace std::chrono_literals;

const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::vector<DaemonLimits> kWanted{{{{kA, mib(14377)}}, Percent::whole(10)},
                                        {{{kA, mib(28754)}}, Percent::whole(20)}};

DaemonLimits honest(DaemonLimits limits) {
  for (auto& [uuid, memory] : limits.memory) memory = gib(memory.value >> 30);
  return limits;
}

struct World {
  Supervisor s;
  SupervisorSettings settings;
  MonoTime now{1h};
  std::vector<Action> actions;

  void feed(const Event& event) {
    actions = step(s, event, now, settings);
    if (s.state == State::kServing) {
      ASSERT_TRUE(s.alive);
      ASSERT_TRUE(s.read_back);
    }
    ASSERT_TRUE(s.state == State::kAbsent || s.state == State::kGivenUp || wake_at(s)) << "it would sleep for ever";
  }
  // The events with which a working environment answers an action.
  void obey(const Action& action) {
    struct Obey {
      World& w;
      void operator()(const SpawnDaemon&) const { w.feed(Spawned{}); }
      void operator()(const Ask& a) const { w.feed(Answered{{}, honest(a.limits)}); }
      void operator()(const PingDaemon&) const { w.feed(Pinged{}); }
      void operator()(const OpenEndpoints&) const {}
      void operator()(const Quit&) const { w.feed(DaemonExited{"exited with status 0"}); }
      void operator()(const KillDaemon&) const { w.feed(DaemonExited{"was killed by signal 9 (Killed)"}); }
    };
    std::visit(Obey{*this}, action);
  }
  void obey_all() {
    for (int i = 0; i < 50 && !actions.empty(); ++i) {
      const auto now_asked = std::exchange(actions, {});
      for (const auto& action : now_asked) obey(action);
    }
  }
};

Event any_event(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  switch (below(22)) {
    case 20:
      return below(2) == 0 ? AdmissionLimitsSet{kWanted[0], honest(kWanted[0])}
                           : AdmissionLimitsSet{kWanted[1], honest(kWanted[1])};
    case 21:
      return AdmissionLimitsUnknown{"no"};
    case 0:
      return Want{kWanted[below(2)]};
    case 1:
      return Spawned{below(2) == 0};
    case 2:
      return Spawned{std::unexpected(Error{Kind::kUnavailable, "no", "", 0})};
    case 3:
      return DaemonExited{"exited with status 1"};
    case 4:
      return Answered{{{.pid = static_cast<int>(below(5)) + 10,
                        .status = below(3) == 0 ? "FAULT" : "ACTIVE",
                        .clients = {static_cast<int>(below(5)) + 100},
                        .limits = below(3) == 0 ? std::nullopt : std::optional(honest(kWanted[below(2)]))}},
                      below(3) == 0 ? DaemonLimits() : honest(kWanted[below(2)])};
    case 5:
    case 6:
      return Answered{{}, honest(kWanted[below(2)])};
    case 7:
      return QuestionFailed{Error{below(2) == 0 ? Kind::kTimeout : Kind::kUnavailable, "no", "", 0}};
    case 8:
      return StopAsked{};
    case 9:
    case 10:
      return Want{kWanted[below(2)]};
    case 11:
      return Pinged{};
    case 12:
      return Pinged{std::unexpected(Error{Kind::kTimeout, "no", "", 0})};
    case 13:
      return below(2) == 0 ? Event(PingSkipped{}) : Event(Look{});
    case 14:
      return ServerLogged{static_cast<int>(below(5)) + 10, below(2) == 0 ? "FAULT" : ""};
    case 16:
      return below(8) == 0 ? Event(Replace{"no"}) : Event(Tick{});
    default:
      return Tick{};
  }
}

// Promise: mps/daemon: After any order of events the pool reaches `serving` or reports `given-up`.
TEST(SupervisorProperty, AfterAnyOrderOfEventsItReachesServingOrSaysGivenUp) {
  constexpr std::uint64_t kSeeds = 3000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    World world;
    const std::uint64_t length = random() % 200;
    for (std::uint64_t i = 0; i < length; ++i) {
      world.now +=
          Duration(static_cast<Duration::rep>(random() % (random() % 3 == 0 ? 40'000'000'000ull : 500'000'000ull)));
      world.feed(any_event(random));
      ASSERT_FALSE(HasFatalFailure());
    }
    // From here on everything succeeds.
    if (world.s.state == State::kStopping) world.feed(DaemonExited{"exited with status 0"});
    if (world.s.state == State::kGivenUp || world.s.state == State::kAbsent)
      world.feed(Want{kWanted[0]});
    else
      world.actions.clear();
    for (int i = 0; i < 100 && world.s.state != State::kServing; ++i) {
      world.obey_all();
      if (world.s.state == State::kServing) break;
      if (world.s.state == State::kGivenUp) world.feed(Want{kWanted[0]});
      if (const auto at = wake_at(world.s)) world.now = std::max(world.now, *at);
      world.feed(Tick{});
    }
    ASSERT_EQ(to_string(world.s.state), "serving") << world.s.reason;
    // After a turn whose limits could not be set, nothing is known to compare with.
    ASSERT_TRUE(world.s.turn_problem || disagreement(limits_to_set(world.s), *world.s.read_back).empty());
  }
}

}  // namespace supervisor_property_test
}  // namespace tranche::mps
