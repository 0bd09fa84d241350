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

// To a question about the daemon alone, or about server 840.
Result<Answered> read(const std::string& text, const DaemonLimits& limits = {}, std::vector<int> servers = {}) {
  DaemonQuestion question({limits}, std::move(servers));
  for (int run = 1; run < 4; ++run)
    if (const auto answer = question.heard(text)) return *answer;
  return *question.heard(text);
}

Result<std::vector<int>> servers_of(const std::string& text) {
  const auto reply = read("10.0\n" + text);
  return reply ? Result<std::vector<int>>(server_pids(reply->servers)) : std::unexpected(reply.error());
}

ServerSeen server_in(const std::string& text, const DaemonLimits& limits = {}) {
  const std::string defaults = limits.memory.size() == 2 ? "10.0\n500M\n500M\n" : "10.0\n";
  const auto reply = read(defaults + "840\n" + text, limits, {840});
  return reply && !reply->servers.empty() ? reply->servers.at(0) : ServerSeen{};
}

Result<Percent> percentage_of(const std::string& text) {
  const auto reply = read(text);
  return reply ? Result<Percent>(reply->defaults.threads) : std::unexpected(reply.error());
}

TEST(Replies, ListServers) {
  EXPECT_THAT(*servers_of(""), IsEmpty());
  EXPECT_THAT(*servers_of("840\n"), ElementsAre(840));
}

TEST(Replies, ReportAServersStatus) {
  EXPECT_EQ(server_in("ACTIVE\n").status, "ACTIVE");
  EXPECT_EQ(server_in("FAULT\n").status, "FAULT");
  EXPECT_EQ(server_in(""), ServerSeen{.pid = 840});
  EXPECT_EQ(server_in("ACTIVE\nACTIVE\n"), ServerSeen{.pid = 840});
}

// Promise: mps/control: A refusal is an error of its kind although the exit status is 0.
TEST(Replies, ThatRefuseAreErrorsOfTheirKind) {
  EXPECT_EQ(servers_of(kNoDaemon).error().kind, Kind::kNotFound);
  EXPECT_EQ(percentage_of(kDenied).error().kind, Kind::kDenied);
  EXPECT_EQ(servers_of("Unknown command \"get_server_list\"\n").error().kind, Kind::kUnsupported);
  EXPECT_EQ(servers_of("A server PID is required\n").error().kind, Kind::kInvalid);
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

// Promise: mps/control: Each reply of a session is read separately.
TEST(Replies, OfAServerReportItsLimitsAndItsClients) {
  const DaemonLimits one{{{kUuid, mib(500)}}, Percent::whole(10)};
  const auto whole = server_in("ACTIVE\n10.0\n500M\n886\n901\n", one);
  EXPECT_EQ(whole.limits, one);
  EXPECT_THAT(whole.clients, ElementsAre(886, 901));
  // A limit that is not set prints nothing.
  const auto unset = server_in("ACTIVE\n10.0\n886\n", one);
  ASSERT_TRUE(unset.limits);
  EXPECT_THAT(unset.limits->memory, IsEmpty());
  EXPECT_THAT(disagreement(one, *unset.limits), HasSubstr("was not read back"));
  // With two devices it is unknown which one has no limit.
  const DaemonLimits two{{{kUuid, mib(500)}, {kOther, mib(500)}}, Percent::whole(10)};
  const auto half = server_in("ACTIVE\n10.0\n500M\n886\n", two);
  EXPECT_FALSE(half.limits);
  EXPECT_THAT(half.clients, ElementsAre(886));
  EXPECT_EQ(read("10.0\n500M\n", two)->defaults, (DaemonLimits{{}, Percent::whole(10)}));
  // As from a server that is starting.
  EXPECT_EQ(server_in("INITIALIZING\n", one), (ServerSeen{.pid = 840, .status = "INITIALIZING"}));
  EXPECT_EQ(server_in("ACTIVE\n10.0\nrubbish\n", one), ServerSeen{.pid = 840});
  EXPECT_EQ(server_in("Server 840 not found\nServer 840 not found\n"), ServerSeen{});
}

TEST(Replies, OfTheProgramAboutItself) {
  EXPECT_TRUE(
      offers_multiuser("OPTIONS:\n  -f,--forground           Setup the daemon in the foreground\n"
                       "  -M,--multiuser-server    Enable multi-user mode\n"));
  EXPECT_FALSE(offers_multiuser("OPTIONS:\n  -d,--daemon              Setup the daemon in the background\n"));
}

}  // namespace replies_test
}  // namespace tranche::mps
