// Requests that are answered later, and the client that sends them. One loop for both sides; every wait has a deadline.
#include <gmock/gmock.h>

#include "os/files/scratch_fixture.h"
#include "os/loop/loop_fixture.h"
#include "os/socket/status_socket.h"
#include "run_until.h"

namespace tranche::os {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class LaterTest : public LoopFixture {
 protected:
  void SetUp() override {
    LoopFixture::SetUp();
    serve();
    client_ = std::make_unique<StatusClient>(*loop_, path_);
  }
  void serve(StatusLimits limits = {}) {
    server_.reset();
    auto opened = StatusServer::open(
        *loop_, path_, [](const std::string& request) { return Result<std::string>("\"" + request + "\""); }, limits,
        [this](const std::string& request, const StatusServer::Reply& reply) {
          asked_.push_back(request);
          if (request.find("now") != std::string::npos) return reply("{\"now\":true}");
          replies_.push_back(reply);
        });
    ASSERT_TRUE(opened) << to_string(opened.error());
    server_ = *std::move(opened);
  }
  void ask(const std::string& line, Duration deadline = 60s) {
    client_->request(line, deadline, [this](const Result<std::string>& answer) {
      answers_.push_back(answer ? *answer : std::string(to_string(answer.error().kind)));
    });
  }
  bool until(const std::function<bool()>& condition) { return run_until(*loop_, condition); }

  Scratch scratch_;
  std::string path_ = scratch_ / "s.sock";
  std::unique_ptr<StatusServer> server_;
  std::unique_ptr<StatusClient> client_;
  std::vector<std::string> asked_;
  std::vector<StatusServer::Reply> replies_;
  std::vector<std::string> answers_;
};

TEST_F(LaterTest, AWordIsAnsweredAtOnceAsBefore) {
  ask("status");
  ASSERT_TRUE(until([&] { return answers_.size() == 1; }));
  EXPECT_THAT(answers_, ElementsAre("\"status\""));
  EXPECT_TRUE(asked_.empty());
}

TEST_F(LaterTest, OneWordMayBeAnsweredLaterToo) {
  serve({.later = "status"});
  ask("status");
  ASSERT_TRUE(until([&] { return replies_.size() == 1; }));
  EXPECT_THAT(asked_, ElementsAre("status"));
  EXPECT_TRUE(answers_.empty());
  replies_[0]("{\"fresh\":true}");
  ASSERT_TRUE(until([&] { return answers_.size() == 1; }));
  EXPECT_THAT(answers_, ElementsAre("{\"fresh\":true}"));
}

TEST_F(LaterTest, AJsonRequestIsAnsweredWhenItsAnswerIsThereAndTheNextWaitsForIt) {
  ask("{\"a\":1}");
  ask("{\"now\":2}");
  ASSERT_TRUE(until([&] { return replies_.size() == 1; }));
  EXPECT_THAT(asked_, ElementsAre("{\"a\":1}"));
  EXPECT_TRUE(answers_.empty());
  replies_[0]("{\"first\":1}");
  ASSERT_TRUE(until([&] { return answers_.size() == 2; }));
  EXPECT_THAT(answers_, ElementsAre("{\"first\":1}", "{\"now\":true}"));
}

TEST_F(LaterTest, ASecondReplyAndAReplyToNobodyDoNothing) {
  ask("{}");
  ASSERT_TRUE(until([&] { return replies_.size() == 1; }));
  replies_[0]("{\"first\":1}");
  replies_[0]("{\"second\":1}");
  ASSERT_TRUE(until([&] { return answers_.size() == 1; }));
  ask("{}");
  ASSERT_TRUE(until([&] { return replies_.size() == 2; }));
  client_.reset();
  replies_[0]("{\"late\":1}");
  replies_[1](fail(Kind::kInvalid, "late"));
  server_.reset();
  replies_[1]("{}");
  EXPECT_THAT(answers_, ElementsAre("{\"first\":1}"));
}

TEST_F(LaterTest, ARequestWithoutAnAnswerTimesOutAndTheNextIsAsked) {
  ask("{}", 30ms);
  ask("{\"now\":1}");
  ASSERT_TRUE(until([&] { return answers_.size() == 2; }));
  EXPECT_THAT(answers_, ElementsAre(to_string(Kind::kTimeout), "{\"now\":true}"));
}

TEST_F(LaterTest, WithoutAServerEveryRequestFailsAndALaterServerIsFound) {
  server_.reset();
  ask("{\"now\":1}");
  ask("{\"now\":2}");
  ASSERT_TRUE(until([&] { return answers_.size() == 2; }));
  EXPECT_THAT(answers_, ElementsAre(to_string(Kind::kUnavailable), to_string(Kind::kUnavailable)));
  serve();
  ask("{\"now\":3}");
  ASSERT_TRUE(until([&] { return answers_.size() == 3; }));
  EXPECT_EQ(answers_.back(), "{\"now\":true}");
}

TEST_F(LaterTest, WhatWasSentAndLostFailsAndIsNotRepeated) {
  ask("{}");
  ASSERT_TRUE(until([&] { return replies_.size() == 1; }));
  server_.reset();
  ASSERT_TRUE(until([&] { return answers_.size() == 1; }));
  EXPECT_THAT(answers_, ElementsAre(to_string(Kind::kUnavailable)));
  serve();
  ask("{\"now\":1}");
  ASSERT_TRUE(until([&] { return answers_.size() == 2; }));
  EXPECT_THAT(asked_, ElementsAre("{}", "{\"now\":1}"));
}

TEST_F(LaterTest, TwoLinesAreNotOneRequest) {
  ask("{}\n{}");
  ask("");
  ASSERT_TRUE(until([&] { return answers_.size() == 2; }));
  EXPECT_THAT(answers_, ElementsAre(to_string(Kind::kInvalid), to_string(Kind::kInvalid)));
  EXPECT_TRUE(asked_.empty());
}

TEST_F(LaterTest, ALongListOfProcessesFitsIntoOneRequest) {
  std::string pids;
  for (int pid = 4194304 - 256; pid < 4194304; ++pid) pids += (pids.empty() ? "" : ",") + std::to_string(pid);
  ask("{\"do\":\"now\",\"pids\":[" + pids + "]}");
  ASSERT_TRUE(until([&] { return answers_.size() == 1; }));
  EXPECT_THAT(answers_.front(), testing::HasSubstr("now"));
}

}  // namespace
}  // namespace tranche::os
