// Sessions with a program of the test in place of the control client: it records its input, and refuses while a file
// says that another program holds the session.
#include "mps/control/control_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "os/files/scratch_fixture.h"
#include "run_until.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kProgram = R"(#!/bin/sh
[ -e "$HELD" ] && echo 'Cannot send command to MPS control daemon process' && exit 0
mkdir "$HELD.one" 2>/dev/null || { echo second session; exit 0; }
read word
[ "$word" = slow ] && sleep 0.3
while [ "$word" = long ] && [ ! -e "$HELD.end" ]; do sleep 0.01; done
rmdir "$HELD.one"
echo "$word"
)";

class SessionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *os::Loop::open();
    const auto dir = os::Dir::open(scratch_.path());
    ASSERT_TRUE(dir->write_atomically("control", kProgram));
    ASSERT_EQ(::chmod((scratch_ / "control").c_str(), 0755), 0);
    sessions_.emplace(*loop_, target());
  }
  ControlTarget target() const {
    return {{scratch_ / "control"}, {{"HELD", scratch_ / "held"}, {"PATH", "/usr/bin:/bin"}}};
  }
  void ask(const std::string& word, Duration deadline) {
    questions_.push_back(sessions_->ask(word + "\n", deadline, [this](const Result<std::string>& reply) {
      answers_.push_back(reply ? *reply : std::string(to_string(reply.error().kind)) + ": " + reply.error().what);
      if (answers_.size() == wanted_) loop_->stop();
    }));
  }
  void run_until(std::size_t answers) {
    wanted_ = answers;
    if (answers_.size() < wanted_) os::run_until_stopped(*loop_);
  }

  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  std::optional<Sessions> sessions_;
  std::vector<std::unique_ptr<Question>> questions_;
  std::vector<std::string> answers_;
  std::size_t wanted_ = 0;
};

// Promise: mps/control: Control sessions run one at a time, in the order of asking.
TEST_F(SessionsTest, RunOneAfterTheOtherInTheOrderOfAsking) {
  for (const char* word : {"slow", "a", "b"}) ask(word, 60s);
  run_until(3);
  EXPECT_THAT(answers_, ElementsAre("slow\n", "a\n", "b\n"));
}

TEST_F(SessionsTest, DoNotCountWaitingAgainstAQuestion) {
  for (int i = 0; i < 4; ++i) ask("slow", 60s);
  ask("a", 1s);
  run_until(5);
  EXPECT_EQ(answers_.back(), "a\n");
}

// Promise: mps/control: A session that a foreign process holds is tried again and the pool serves on.
TEST_F(SessionsTest, TryAgainWhileSomebodyElseHoldsTheSession) {
  const auto dir = os::Dir::open(scratch_.path());
  ASSERT_TRUE(dir->write_atomically("held", ""));
  ask("a", 60s);
  ask("b", 60s);
  loop_->after(100ms, [&] { EXPECT_TRUE(dir->remove("held")); });
  run_until(2);
  EXPECT_THAT(answers_, ElementsAre("a\n", "b\n"));
}

TEST_F(SessionsTest, SayThatSomebodyElseHeldTheSessionAllTheTime) {
  ASSERT_TRUE(os::Dir::open(scratch_.path())->write_atomically("held", ""));
  ask("a", 1s);
  ask("b", 1s);
  run_until(2);
  for (const auto& answer : answers_) {
    EXPECT_EQ(answer, "conflict: another client holds the daemon's one control session");
  }
}

TEST_F(SessionsTest, MakeRoomWhenAQuestionIsWithdrawn) {
  ask("long", 60s);
  ask("a", 60s);
  ask("b", 60s);
  loop_->after(20ms, [&] {
    questions_[0].reset();  // open
    questions_[1].reset();  // waiting
  });
  run_until(1);
  EXPECT_THAT(answers_, ElementsAre(testing::AnyOf("b\n", "second session\n")));  // the killed session wrote its mark
}

}  // namespace
}  // namespace tranche::mps
