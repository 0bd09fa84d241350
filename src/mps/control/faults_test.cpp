// The lines are captured from a real server: tests/standins/mps/transcripts (events.txt, lives.txt, late-context.txt).
#include "mps/control/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace tranche::mps {
namespace faults_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const WallTime kNow{1234s};

struct Rig {
  FaultHistory history;
  std::map<int, std::string> grants;
  std::set<int> living;
  bool say(const std::string& text, int server = 532) {
    const std::string line = "[2026-11-21 17:27:39.177 Server   " + std::to_string(server) + "] " + text;
    const auto grant_of = [this](int pid) {
      const auto found = grants.find(pid);
      return found == grants.end() ? std::string() : found->second;
    };
    return history.read(*parse_log_line(line), kNow, {grant_of, [this](int pid) { return living.contains(pid); }});
  }
  Rig& lost(int pid, int context) {
    say("Server failed to recevie command with status 806, assuming client {PID: " + std::to_string(pid) +
        ", Context ID: " + std::to_string(context) + "} exit");
    return *this;
  }
  Rig& left(int pid) {
    say("Client process " + std::to_string(pid) + " disconnected");
    return *this;
  }
  Rig& fatal(int named, std::initializer_list<int> torn) {
    say("Client {PID: " + std::to_string(named) + ", Context: 1} encountered a fatal GPU error.");
    say("Server is handling a fatal GPU error.");
    for (const int pid : torn) {
      say("All clients belonging to error trigging process " + std::to_string(pid) + " will be torn down");
    }
    return *this;
  }
};

// Promise: mps/log: Faults name the culprit that MPS names and its victims.
TEST(Faults, NameTheCulpritAndItsVictims) {
  Rig rig;
  rig.fatal(554, {554, 609});
  EXPECT_THAT(rig.history.last(), ElementsAre(Fault{kNow, FaultKind::kFatal, 554, {609}, 532}));
}

// Promise: mps/log: After a death the process that died is named, not the peer that noticed.
TEST(Faults, AfterADeathNameTheOneThatDiedAndNotThePeerThatNoticed) {
  Rig rig;
  rig.lost(767, 1).fatal(782, {724, 782}).lost(767, 0).left(767);
  EXPECT_THAT(rig.history.last(), ElementsAre(Fault{kNow, FaultKind::kUncleanExit, 767, {782, 724}, 532}));
}

// The process that died may be unknown by the time that the server blames a peer.
TEST(Faults, NameTheGrantsOfTheirProcessesAsTheLogNamesThem) {
  Rig rig;
  rig.grants = {{767, "g1"}, {782, "g2"}};
  rig.lost(767, 1);
  rig.grants.erase(767);
  rig.fatal(782, {724, 782});
  EXPECT_EQ(rig.history.last().back().grants, (std::map<int, std::string>{{767, "g1"}, {782, "g2"}}));
}

// Promise: mps/log: A death that is over is not the cause of a later fault.
TEST(Faults, ADeathThatIsOverIsNobodysFault) {
  Rig rig;
  rig.lost(527, 1).lost(527, 0).left(527).fatal(554, {554, 609});
  EXPECT_THAT(rig.history.last(), ElementsAre(Fault{kNow, FaultKind::kFatal, 554, {609}, 532}));
}

// Promise: mps/log: A client that destroyed a context and runs on is not the cause of a neighbour's fault.
TEST(Faults, AContextThatALivingClientDestroyedIsNobodysFault) {
  Rig rig;
  rig.living = {963, 968};
  rig.lost(963, 1);
  rig.say("Client {PID: 963, Context ID: 1} exiting. Number of active client contexts is 1.");
  rig.fatal(968, {968});
  EXPECT_THAT(rig.history.last(), ElementsAre(Fault{kNow, FaultKind::kFatal, 968, {}, 532}));
  rig.living.erase(963);
  rig.fatal(970, {970});
  EXPECT_THAT(rig.history.last().back(), (Fault{kNow, FaultKind::kUncleanExit, 963, {970}, 532}))
      << "it ends its own connection first, and then dies with work in flight";
}

TEST(Faults, TheEndOfAContextMayComeAfterTheClientsEndAndIsNobodysFault) {
  Rig rig;
  rig.fatal(769, {741, 769}).lost(741, 0).left(741).lost(741, 1).lost(769, 1).lost(769, 0).left(769);
  rig.fatal(805, {797, 805});
  EXPECT_THAT(rig.history.last().back(), (Fault{kNow, FaultKind::kFatal, 805, {797}, 532}));
  rig.say("Client {PID: 741, Context ID: 0} connected");
  rig.lost(741, 1).fatal(830, {830});
  EXPECT_THAT(rig.history.last().back(), (Fault{kNow, FaultKind::kUncleanExit, 741, {830}, 532}))
      << "another process with the same pid";
}

TEST(Faults, AClientThatDestroysContextsAllTheTimeDrivesNoDeathOut) {
  Rig rig;
  rig.living = {963};
  rig.lost(767, 1);
  for (int context = 1; context <= 300; ++context) rig.lost(963, context);
  rig.fatal(782, {782});
  EXPECT_THAT(rig.history.last(), ElementsAre(Fault{kNow, FaultKind::kUncleanExit, 767, {782}, 532}));
}

TEST(Faults, AnExitWithoutContextsIsNobodysFault) {
  Rig rig;
  rig.lost(527, 0).fatal(554, {554, 609});
  EXPECT_THAT(rig.history.last(), ElementsAre(Fault{kNow, FaultKind::kFatal, 554, {609}, 532}));
}

TEST(Faults, ADeathAtAnotherServerHasNothingToDoWithIt) {
  Rig rig;
  rig.say("Server failed to recevie command with status 806, assuming client {PID: 9, Context ID: 1} exit", 600);
  rig.fatal(554, {554});
  EXPECT_EQ(rig.history.last().back().kind, FaultKind::kFatal);
}

TEST(Faults, AnExceptionNamesNobody) {
  Rig rig;
  EXPECT_TRUE(rig.say("Server encountered a fatal exception. Shutting down"));
  EXPECT_THAT(rig.history.last(), ElementsAre(Fault{kNow, FaultKind::kException, 0, {}, 532}));
}

TEST(Faults, OnlyTheLastAreKept) {
  Rig rig;
  for (int pid = 1; pid <= 40; ++pid) rig.fatal(pid, {pid});
  EXPECT_EQ(rig.history.last().size(), kMostFaults);
  EXPECT_EQ(rig.history.last().back().culprit, 40);
}

TEST(Faults, VictimsAndDeathsAreBounded) {
  Rig rig;
  rig.fatal(1, {});
  for (int pid = 2; pid <= 400; ++pid)
    rig.say("All clients belonging to error trigging process " + std::to_string(pid) + " will be torn down");
  EXPECT_EQ(rig.history.last().back().victims.size(), 256u);
  for (int server = 1000; server < 1257; ++server)
    rig.say("Server failed to recevie command with status 806, assuming client {PID: 9, Context ID: 1} exit", server);
  for (const int server : {1000, 1001}) rig.say("Client {PID: 7, Context: 1} encountered a fatal GPU error.", server);
  EXPECT_EQ(rig.history.last().end()[-2].kind, FaultKind::kFatal) << "the oldest death is forgotten";
  EXPECT_EQ(rig.history.last().back().kind, FaultKind::kUncleanExit);
}

TEST(Faults, HarmlessExitsAreNone) {
  Rig rig;
  rig.lost(704, 1).lost(704, 0).left(704);
  EXPECT_THAT(rig.history.last(), IsEmpty());
}

}  // namespace faults_test
}  // namespace tranche::mps
