#include "mps/proof/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace tranche::mps {
namespace proof_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using enum ProofVerdict;

struct Rig {
  Proof p;
  ProofSettings settings;
  MonoTime now{1h};
  std::vector<std::string> last;

  Rig& feed(const ProofEvent& event) {
    last.clear();
    for (const auto& action : step(p, event, now, settings)) {
      if (std::holds_alternative<StartProof>(action)) last.push_back("start");
      if (std::holds_alternative<CancelProof>(action)) last.push_back("cancel");
      if (const auto* end = std::get_if<EndStep>(&action)) last.push_back("end " + std::string(to_string(end->step)));
    }
    return *this;
  }
  Rig& wake() {
    if (const auto at = wake_at(p, settings)) now = std::max(now, *at);
    return feed(ProofTick{});
  }
  Rig& ended(ProofVerdict verdict, bool clients = true, bool servers = true) {
    return feed(ProofEnded{verdict, verdict == kPassed ? "" : "why", clients, servers});
  }
};

Rig fresh() {
  return {};
}
Rig proving() {
  return fresh().feed(PoolServes{});
}
Rig proven() {
  return proving().ended(kPassed);
}
Rig failed_once() {
  return proven().wake().ended(kWedged);
}
Rig ending_clients() {
  return failed_once().wake().ended(kWedged);
}
Rig ending_servers() {
  return ending_clients().feed(StepDone{}).wake().ended(kWedged);
}
Rig ending_daemon() {
  return ending_servers().feed(StepDone{}).wake().ended(kWedged);
}

struct Row {
  const char* arrow;
  std::function<Rig()> from;
  std::function<void(Rig&)> event;
  const char* word;
  std::vector<std::string> actions;
};

// Promise: mps/proof/proof: Each transition of a proof follows its table.
TEST(Proof, EveryArrow) {
  const std::vector<Row> rows{
      {"the pool's limits are in force → proven first",
       fresh,
       [](Rig& r) { r.feed(PoolServes{}); },
       "proving",
       {"start"}},
      {"passed → serves", proving, [](Rig& r) { r.ended(kPassed); }, "serving", {}},
      {"inconclusive → serves", proving, [](Rig& r) { r.ended(kInconclusive); }, "serving", {}},
      {"failed once → does not serve, nobody is ended", proving, [](Rig& r) { r.ended(kWedged); }, "wedged", {}},
      {"failed once, soon → tried again", failed_once, [](Rig& r) { r.wake(); }, "wedged", {"start"}},
      {"failed once, then passed → serves", failed_once, [](Rig& r) { r.wake().ended(kPassed); }, "serving", {}},
      {"failed twice → clients are ended",
       failed_once,
       [](Rig& r) { r.wake().ended(kWedged); },
       "wedged",
       {"end clients"}},
      {"failed twice without clients → servers are ended",
       failed_once,
       [](Rig& r) { r.wake().ended(kWedged, false); },
       "wedged",
       {"end servers"}},
      {"failed twice without anybody → the daemon is ended",
       failed_once,
       [](Rig& r) { r.wake().ended(kWedged, false, false); },
       "wedged",
       {"end daemon"}},
      {"clients ended → another proof", ending_clients, [](Rig& r) { r.feed(StepDone{}).wake(); }, "wedged", {"start"}},
      {"clients cannot be ended → another proof all the same",
       ending_clients,
       [](Rig& r) { r.wake().wake(); },
       "wedged",
       {"start"}},
      {"clients ended and it passes → serves",
       ending_clients,
       [](Rig& r) { r.feed(StepDone{}).wake().ended(kPassed); },
       "serving",
       {}},
      {"clients ended and it fails → servers are ended",
       ending_clients,
       [](Rig& r) { r.feed(StepDone{}).wake().ended(kWedged); },
       "wedged",
       {"end servers"}},
      {"servers ended and it fails → the daemon is ended",
       ending_servers,
       [](Rig& r) { r.feed(StepDone{}).wake().ended(kWedged); },
       "wedged",
       {"end daemon"}},
      {"a new daemon → proven first",
       ending_daemon,
       [](Rig& r) { r.feed(PoolLeft{}).feed(PoolServes{}); },
       "wedged",
       {"start"}},
      {"a GPU that computes wrong → does not serve, nobody is ended",
       proven,
       [](Rig& r) { r.wake().ended(kUnfit); },
       "wedged",
       {}},
      {"a GPU that computed wrong → tried again",
       proven,
       [](Rig& r) { r.wake().ended(kUnfit).wake(); },
       "wedged",
       {"start"}},
      {"now and then → tried while it serves", proven, [](Rig& r) { r.wake(); }, "serving", {"start"}},
      {"a fault → tried soon", proven, [](Rig& r) { r.feed(Doubt{}).wake(); }, "serving", {"start"}},
      {"a doubt while one runs → another follows",
       proving,
       [](Rig& r) { r.feed(Doubt{}).ended(kPassed).wake(); },
       "serving",
       {"start"}},
      {"the daemon goes → called off", proving, [](Rig& r) { r.feed(PoolLeft{}); }, "proving", {"cancel"}},
      {"the daemon comes back → proven first",
       proven,
       [](Rig& r) { r.feed(PoolLeft{}).feed(PoolServes{}); },
       "proving",
       {"start"}},
      {"only the limits changed → what was proven holds",
       proven,
       [](Rig& r) { r.feed(PoolLeft{PoolLeft::Why::kLimits}).feed(PoolServes{}); },
       "serving",
       {}},
      {"mute after a failure, the same daemon → the next failure is the second",
       failed_once,
       [](Rig& r) { r.feed(PoolLeft{PoolLeft::Why::kSame}).feed(PoolServes{}).ended(kWedged, false); },
       "wedged",
       {"end servers"}},
      {"mute after its clients were ended, the same daemon → its servers are next",
       ending_clients,
       [](Rig& r) { r.feed(PoolLeft{PoolLeft::Why::kSame}).feed(StepDone{}).feed(PoolServes{}).ended(kWedged); },
       "wedged",
       {"end servers"}},
      {"mute, the same daemon → proven first",
       proven,
       [](Rig& r) { r.feed(PoolLeft{PoolLeft::Why::kSame}).feed(PoolServes{}); },
       "proving",
       {"start"}},
      {"another daemon after a failure → its first failure is the first",
       failed_once,
       [](Rig& r) { r.feed(PoolLeft{}).feed(PoolServes{}).ended(kWedged); },
       "wedged",
       {}},
      {"a fault that is handled for too long → clients are ended",
       proven,
       [](Rig& r) { r.feed(FaultHandled{true}).wake(); },
       "wedged",
       {"end clients"}},
  };
  for (const auto& row : rows) {
    Rig rig = row.from();
    row.event(rig);
    EXPECT_EQ(pool_word(rig.p), row.word) << row.arrow << ": " << rig.p.reason;
    EXPECT_EQ(rig.last, row.actions) << row.arrow;
  }
}

TEST(Proof, TurnedOffNeverStartsAndAlwaysServes) {
  Rig rig;
  rig.settings.every = {};
  rig.feed(PoolServes{}).feed(Doubt{}).feed(FaultHandled{true});
  EXPECT_EQ(rig.p.state, ProofState::kOff);
  EXPECT_EQ(pool_word(rig.p), "serving");
  EXPECT_FALSE(wake_at(rig.p, rig.settings));
}

TEST(Proof, TurnedOffWhileItServesIsNotTriedAgain) {
  Rig rig = proven();
  rig.settings.every = {};
  rig.feed(PoolServes{});
  EXPECT_FALSE(wake_at(rig.p, rig.settings));
}

TEST(Proof, TurnedOnWhileItServesIsTriedSoon) {
  Rig rig;
  rig.settings.every = {};
  rig.feed(PoolServes{});
  rig.settings.every = 10min;
  rig.feed(PoolServes{});
  EXPECT_EQ(pool_word(rig.p), "serving");
  rig.wake();
  EXPECT_TRUE(rig.p.running);
  rig.settings.every = {};
  rig.feed(PoolServes{});
  EXPECT_EQ(rig.last, std::vector<std::string>{"cancel"});
  EXPECT_EQ(rig.p.state, ProofState::kOff);
}

TEST(Proof, DeathsThatHurtNobodyCauseFewProofs) {
  Rig rig = proven();
  const MonoTime began = rig.now;
  int proofs = 0;
  while (rig.now < began + 60s) {
    rig.now += 100ms;
    rig.feed(Doubt{.paced = true}).feed(ProofTick{});
    if (rig.p.running) {
      ++proofs;
      rig.ended(kPassed);
    }
  }
  EXPECT_GE(proofs, 4);
  EXPECT_LE(proofs, 7);
}

TEST(Proof, AFaultThatEndsInTimeEndsNobody) {
  Rig rig = proven();
  rig.feed(FaultHandled{true});
  rig.now += 29s;
  rig.feed(FaultHandled{false});
  rig.now += 5s;
  rig.feed(ProofTick{});
  EXPECT_EQ(rig.p.step, Step::kNone);
  EXPECT_EQ(rig.p.clients_ended, 0u);
}

TEST(Proof, AFaultGetsItsPatienceAnewWhenClientsAreEndedForIt) {
  Rig rig = proven().feed(FaultHandled{true}).wake();
  EXPECT_EQ(rig.p.step, Step::kClients);
  EXPECT_EQ(rig.p.fault_since, rig.now);
  const auto since = rig.now;
  rig.feed(StepDone{}).wake().ended(kWedged);
  EXPECT_EQ(rig.p.step, Step::kServers);
  EXPECT_EQ(rig.p.fault_since, since);
}

TEST(Proof, AFaultIsLookedIntoSoonAfterTheLastProof) {
  Rig rig = proven();
  ASSERT_LT(rig.settings.settle, rig.settings.doubt_every);
  EXPECT_EQ(rig.feed(Doubt{}).p.due, rig.now + rig.settings.settle);
  rig = proven();
  EXPECT_EQ(rig.feed(Doubt{.paced = true}).p.due, rig.now + rig.settings.doubt_every);
}

TEST(Proof, CountsWhatItEnded) {
  EXPECT_EQ(ending_servers().p.servers_ended, 1u);
  EXPECT_EQ(ending_servers().p.daemons_ended, 0u);
  const Rig rig = ending_daemon();
  EXPECT_EQ(rig.p.clients_ended, 1u);
  EXPECT_EQ(rig.p.servers_ended, 1u);
  EXPECT_EQ(rig.p.daemons_ended, 1u);
  EXPECT_EQ(rig.p.failed, 4u);
}

TEST(ProofProperty, APoolServesOnlyTrustedAndNeverSleepsWhileItIsNot) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Rig rig;
    for (int i = 0; i < 100; ++i) {
      rig.now += Duration(static_cast<Duration::rep>(random() % 5'000'000'000ull));
      const bool was_running = rig.p.running;
      switch (random() % 9) {
        case 0:
          rig.feed(PoolServes{});
          break;
        case 1:
          rig.feed(PoolLeft{static_cast<PoolLeft::Why>(random() % 3)});
          break;
        case 2:
          rig.feed(Doubt{.paced = random() % 2 == 0});
          break;
        case 3:
          rig.feed(FaultHandled{random() % 2 == 0});
          break;
        case 4:
          rig.feed(StepDone{});
          break;
        case 5:
        case 6:
          rig.ended(static_cast<ProofVerdict>(random() % 4), random() % 2 == 0, random() % 2 == 0);
          break;
        default:
          rig.feed(ProofTick{});
      }
      for (const auto& action : rig.last) {
        const bool second = action == "start" && was_running && rig.last.front() == "start";
        ASSERT_FALSE(second) << "two at a time";
      }
      const bool waits = rig.p.serves && !rig.p.trusted && !rig.p.running;
      ASSERT_TRUE(!waits || wake_at(rig.p, rig.settings)) << "it would sleep for ever";
      ASSERT_FALSE(rig.p.trusted && rig.p.state == ProofState::kFailed);
    }
    // From here on every start succeeds.
    rig.feed(PoolServes{});
    for (int i = 0; i < 20 && !rig.p.trusted; ++i) rig.p.running ? rig.ended(kPassed) : rig.wake();
    ASSERT_TRUE(rig.p.trusted) << rig.p.reason;
  }
}

TEST(Proof, APoolThatLeftForItsLimitsIsProvenAPeriodAfterItIsBack) {
  Rig rig = proven();
  rig.now += 1min;
  rig.feed(PoolLeft{PoolLeft::Why::kLimits}).feed(PoolServes{});
  EXPECT_EQ(rig.p.due, rig.now + rig.settings.every);
}

TEST(Proof, APoolThatLeftAwaitsNoProof) {
  Rig rig = proving();
  rig.feed(PoolLeft{PoolLeft::Why::kDaemon});
  EXPECT_FALSE(wake_at(rig.p, rig.settings));
}

TEST(Proof, ANewProofHasNoReasonOfTheLast) {
  Rig rig = proving().ended(kInconclusive);
  rig.p.reason = "why";
  rig.feed(PoolLeft{PoolLeft::Why::kDaemon}).feed(PoolServes{});
  EXPECT_EQ(rig.p.reason, "");
}

}  // namespace proof_test
}  // namespace tranche::mps
