// The texts are captured from a real control daemon: NVIDIA H200, driver 580.159.04, 2026-11-21.
#include "mps/control/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tranche::mps {
namespace replies_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kUuid = "GPU-00000000-0000-0000-0000-000000000000";
const std::string kOther = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";
constexpr const char* kNoDaemon = "Cannot find MPS control daemon process\n";
constexpr const char* kDenied =
    "Insufficient privileges for UID 1001. Control deamon settings can only be modified by the user who started it or "
    "by "
    "the root user.\n";

Result<Pids> servers_of(const std::string& text) {
  const auto reply = parse_health_session({}, "10.0\n" + text);
  return reply ? Result<Pids>(reply->servers) : std::unexpected(reply.error());
}

Result<std::string> status_of(const std::string& text) {
  const auto reply = parse_server_session({}, text);
  return reply ? Result<std::string>(reply->status) : std::unexpected(reply.error());
}

Result<Percent> percentage_of(const std::string& text) {
  const auto reply = parse_health_session({}, text);
  return reply ? Result<Percent>(reply->defaults.threads) : std::unexpected(reply.error());
}

TEST(Replies, ListServers) {
  EXPECT_THAT(*servers_of(""), IsEmpty());
  EXPECT_THAT(*servers_of("840\n"), ElementsAre(840));
}

TEST(Replies, ReportAServersState) {
  EXPECT_EQ(*status_of("ACTIVE\n"), "ACTIVE");
  EXPECT_EQ(*status_of("FAULT\n"), "FAULT");
  EXPECT_EQ(status_of("").error().kind, Kind::kInvalid);
  EXPECT_EQ(status_of("ACTIVE\nACTIVE\n").error().kind, Kind::kInvalid);
}

// Promise: mps/control: A refusal is an error of its kind although the exit status is 0.
TEST(Replies, ThatRefuseAreErrorsOfTheirKind) {
  EXPECT_EQ(status_of("Server 1 not found\n").error().kind, Kind::kNotFound);
  EXPECT_EQ(servers_of(kNoDaemon).error().kind, Kind::kNotFound);
  EXPECT_EQ(percentage_of(kDenied).error().kind, Kind::kDenied);
  EXPECT_EQ(servers_of("Unknown command \"get_server_list\"\n").error().kind, Kind::kUnsupported);
  EXPECT_EQ(status_of("A server PID is required\n").error().kind, Kind::kInvalid);
  EXPECT_THAT(servers_of(kNoDaemon).error().what, HasSubstr("Cannot find MPS control daemon process"));
  EXPECT_EQ(servers_of(kNoDaemon).error().where, "get_server_list");
}

TEST(Replies, QuoteWhatTheyCannotRead) {
  EXPECT_THAT(servers_of("840\nzz\n").error().what, HasSubstr("\"zz\" is not a process id"));
  for (const char* text : {"-1", "0", " 840", "840 ", "99999999", "840\n\n841"}) {
    EXPECT_FALSE(servers_of(text)) << text;
  }
}

TEST(Replies, ReportPercentages) {
  EXPECT_EQ(*percentage_of("100.0\n"), Percent::whole(100));
  EXPECT_EQ(*percentage_of("12.5\n"), Percent{1250});
  EXPECT_EQ(*percentage_of("33.3\n"), Percent{3330});
  for (const char* text : {"", "0.0", "100.1", "-5", "zz", "10.0\n10.0"}) EXPECT_FALSE(percentage_of(text)) << text;
}

TEST(Replies, ReportMemoryLimits) {
  EXPECT_EQ(amount_of("4G"), gib(4));
  EXPECT_EQ(amount_of("500M"), mib(500));
  for (const char* text : {"", kDenied, "4", "G", "4K", "4 G", "-4G", "4.5G", "99999999999999G"})
    EXPECT_FALSE(amount_of(text)) << text;
}

TEST(Replies, OfAServerReportItsLimitsAndItsClients) {
  const DaemonLimits one{{{kUuid, mib(500)}}, Percent::whole(10)};
  const auto whole = parse_server_session(one, "ACTIVE\n10.0\n500M\n886\n901\n");
  ASSERT_TRUE(whole) << to_string(whole.error());
  EXPECT_EQ(whole->limits, one);
  EXPECT_THAT(whole->clients, ElementsAre(886, 901));
  // A limit that is not set prints nothing.
  const auto unset = parse_server_session(one, "ACTIVE\n10.0\n886\n");
  ASSERT_TRUE(unset && unset->limits);
  EXPECT_THAT(unset->limits->memory, IsEmpty());
  EXPECT_THAT(disagreement(one, *unset->limits), HasSubstr("was not read back"));
  // With two devices it is unknown which one has no limit.
  const DaemonLimits two{{{kUuid, mib(500)}, {kOther, mib(500)}}, Percent::whole(10)};
  const auto half = parse_server_session(two, "ACTIVE\n10.0\n500M\n886\n");
  ASSERT_TRUE(half);
  EXPECT_FALSE(half->limits);
  EXPECT_THAT(half->clients, ElementsAre(886));
  // As from a server that is starting.
  const auto early = parse_server_session(one, "INITIALIZING\n");
  ASSERT_TRUE(early);
  EXPECT_FALSE(early->limits);
  EXPECT_FALSE(parse_server_session(one, "ACTIVE\n10.0\nrubbish\n"));
}

// Promise: mps/control: Each reply of a session is read separately.
TEST(Replies, OfASessionAreDistinguished) {
  EXPECT_THAT(parse_health_session({}, "10.0\n")->servers, IsEmpty());
  EXPECT_THAT(parse_health_session({}, "10.0\n840\n1271\n")->servers, ElementsAre(840, 1271));
  EXPECT_FALSE(parse_health_session({}, ""));
  EXPECT_FALSE(parse_health_session({}, "840\n"));
  EXPECT_EQ(parse_health_session({}, kNoDaemon).error().kind, Kind::kNotFound);
  const DaemonLimits two{{{kUuid, mib(4096)}, {kOther, mib(500)}}, Percent::whole(10)};
  EXPECT_EQ(parse_health_session(two, "10.0\n4G\n500M\n840\n")->defaults, two);
  EXPECT_EQ(parse_health_session(two, "10.0\n500M\n840\n")->defaults, (DaemonLimits{{}, Percent::whole(10)}))
      << "it is unknown which one is not set";

  const auto server = parse_server_session({}, "ACTIVE\n886\n901\n");
  ASSERT_TRUE(server);
  EXPECT_EQ(server->status, "ACTIVE");
  EXPECT_THAT(server->clients, ElementsAre(886, 901));
  EXPECT_EQ(parse_server_session({}, "Server 532 not found\nServer 532 not found\n").error().kind, Kind::kNotFound);
}

TEST(Replies, OfTheProgramAboutItself) {
  EXPECT_EQ(
      parse_version("CUDA MPS Control for Linux/Unix/QNX. Binary version: 13000\nCopyright (C) 2003 - 2025 NVIDIA "
                    "Corporation.\n\n"),
      13000);
  EXPECT_EQ(parse_version("Unrecognized option \n"), 0);
  EXPECT_EQ(parse_version("Binary version: \n"), 0);
  EXPECT_TRUE(
      offers_multiuser("OPTIONS:\n  -f,--forground           Setup the daemon in the foreground\n"
                       "  -M,--multiuser-server    Enable multi-user mode\n"));
  EXPECT_FALSE(offers_multiuser("OPTIONS:\n  -d,--daemon              Setup the daemon in the background\n"));
}

}  // namespace replies_test
}  // namespace tranche::mps
