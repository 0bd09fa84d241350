// The texts are captured from a real control daemon: tests/standins/mps/transcripts/commands.txt.
#include "mps/terminate_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum TerminateOutcome;

const char* kInvalidProcess = "Invalid process 886!\n1\n";
const char* kNoServer = "Server 840 not found\nServer 840 not found!\n1\n";
const char* kDenied =
    "Insufficient privileges for UID 1001. Control deamon settings can only be modified by the user who started it or "
    "by the root user.\n800\n";

Terminated only(const std::string& answer) {
  const auto all = parse_terminate_session({{840, 886}}, answer + "10.0\n");
  return all.size() == 1 ? all[0] : Terminated{};
}

TEST(TerminateSession, AsksForEveryProcessAtEveryServerWithAMarkBehind) {
  const auto asked = terminations({12, 13}, {101, 102, 101});
  EXPECT_THAT(asked, ElementsAre(TerminateAsked{12, 101}, TerminateAsked{13, 101}, TerminateAsked{12, 102},
                                 TerminateAsked{13, 102}));
  EXPECT_THAT(terminate_session({{12, 101}}),
              ElementsAre("terminate_client 12 101", "get_default_active_thread_percentage"));
}

TEST(TerminateSession, TellsEveryAnswerApart) {
  EXPECT_EQ(only("0\n"), (Terminated{886, kTerminated, ""}));
  EXPECT_EQ(only(kInvalidProcess), (Terminated{886, kNotAClient, "Invalid process 886!"}));
  EXPECT_EQ(only(kNoServer), (Terminated{886, kNotAClient, "Server 840 not found"}));
  EXPECT_EQ(only("201\n").outcome, kNotAClient);
  EXPECT_EQ(only("46\n"), (Terminated{886, kRefused, "MPS answers CUDA error 46"}));
  EXPECT_EQ(only("").outcome, kRefused);
  EXPECT_EQ(only(kDenied).outcome, kRefused);
  EXPECT_THAT(only(kDenied).note, HasSubstr("Insufficient privileges for UID 1001"));
}

TEST(TerminateSession, GivesEachProcessItsOwnOutcome) {
  const auto all = parse_terminate_session({{840, 1}, {840, 2}, {840, 3}},
                                           std::string("0\n10.0\n") + kInvalidProcess + "10.0\n201\n10.0\n");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].outcome, kTerminated);
  EXPECT_EQ(all[1].outcome, kNotAClient);
  EXPECT_EQ(all[2].outcome, kNotAClient);
}

TEST(TerminateSession, CountsAProcessAsTerminatedWhenOneServerSaysSo) {
  const auto all = parse_terminate_session({{12, 101}, {13, 101}}, "201\n33.3\n0\n33.3\n");
  EXPECT_THAT(all, ElementsAre(Terminated{101, kTerminated, ""}));
}

TEST(TerminateSession, SaysWhatTheDaemonDidNotGetTo) {
  const auto all = parse_terminate_session({{840, 1}, {840, 2}}, "0\n10.0\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].outcome, kTerminated);
  EXPECT_EQ(all[1].outcome, kTimedOut);
  // An answer without the mark behind it may be half of one.
  EXPECT_EQ(parse_terminate_session({{840, 1}}, "0\n")[0].outcome, kTimedOut);
}

}  // namespace
}  // namespace tranche::mps
