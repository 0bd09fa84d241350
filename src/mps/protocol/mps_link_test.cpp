#include "mps/protocol/mps_link.h"

#include <gmock/gmock.h>

#include "os/files/scratch.h"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MpsReply, IsTheLineOnlyWhenItSaysOk) {
  EXPECT_EQ(read_mps_reply(R"({"ok":true,"clients":[]})").value(), R"({"ok":true,"clients":[]})");
  EXPECT_THAT(read_mps_reply(R"({"ok":false,"error":"there is no such endpoint"})").error().what,
              HasSubstr("there is no such endpoint"));
  EXPECT_THAT(read_mps_reply(R"({"error":"not a word"})").error().what, HasSubstr("not a word"));
  for (const char* text : {"", "[]", "{}", R"({"ok":1})", R"({"ok":false})", "{"})
    EXPECT_EQ(read_mps_reply(text).error().kind, Kind::kInvalid) << text;
}

TEST(MpsRequest, ToOpenAnEndpointNamesTheSlotsAndWhatTheyAreWorth) {
  EXPECT_EQ(open_endpoint_request("set-1", "0011223344556677", {{"GPU-1", 7188, 500}, {"GPU-2", 0, 0}}),
            R"({"do":"openEndpoint","pool":"set-1","grant":"0011223344556677","limits":[)"
            R"({"uuid":"GPU-1","memoryMiB":7188,"threadsHundredths":500},)"
            R"({"uuid":"GPU-2","memoryMiB":0,"threadsHundredths":0}]})");
  EXPECT_EQ(open_endpoint_request("set-1", "0011223344556677", {}),
            R"({"do":"openEndpoint","pool":"set-1","grant":"0011223344556677"})");
}

TEST(MpsLinkTest, AsksInOrderAndTellsAnAbsentProgram) {
  const host::Scratch scratch;
  const auto loop = *host::Loop::open();
  std::vector<std::string> answers;
  MpsLink link(*loop, scratch / "mps.sock");
  const auto note = [&](const Result<std::string>& reply) {
    answers.push_back(reply ? "ok" : std::string(to_string(reply.error().kind)));
    if (answers.size() == 1 || answers.size() == 3) loop->stop();
  };
  const auto guard = loop->after(20s, [&] { loop->stop(); });
  link.request("{}", note);
  loop->run();
  auto server = host::StatusServer::open(
      *loop, scratch / "mps.sock", [](const std::string&) { return Result<std::string>("{}"); }, {},
      [](const std::string& request, const host::StatusServer::Reply& reply) {
        reply(request == "{\"a\":1}" ? R"({"ok":true})" : R"({"ok":false,"error":"no"})");
      });
  ASSERT_TRUE(server);
  link.request("{\"a\":1}", note);
  link.request("{\"a\":2}", note);
  loop->run();
  loop->cancel(guard);
  EXPECT_THAT(answers, ElementsAre(to_string(Kind::kUnavailable), "ok", to_string(Kind::kUnavailable)));
}

}  // namespace
}  // namespace tranche::agent
