#include "mps/control/control_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "os/files/scratch_fixture.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct Asked {
  std::unique_ptr<os::Loop> loop = *os::Loop::open();
  std::optional<Result<std::string>> answer;

  Result<std::string> run(const ControlTarget& target, Duration deadline, const std::string& input = "") {
    Sessions sessions(*loop, target);
    const auto question = sessions.ask(input, deadline, [this](Result<std::string> text) {
      answer = std::move(text);
      loop->stop();
    });
    loop->run();
    return *answer;
  }
};

TEST(ControlClient, GivesTheWholeAnswer) {
  Asked asked;
  EXPECT_EQ(*asked.run({{"/bin/echo", "one\ntwo"}, {}}, 60s), "one\ntwo\n");
}

TEST(ControlClient, PutsTheCommandsOnStandardInput) {
  Asked asked;
  EXPECT_EQ(*asked.run({{"/bin/cat"}, {}}, 60s, "get_server_list\nps\n"), "get_server_list\nps\n");
}

TEST(ControlClient, GivesUpAtTheDeadlineAndLeavesNoProcess) {
  Asked asked;
  const auto answer = asked.run({{"/bin/sleep", "1000"}, {}}, 20ms);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, Kind::kTimeout);
  EXPECT_THAT(answer.error().what, HasSubstr("no answer within"));
}

// Promise: mps/control: A control program without a daemon is reported.
TEST(ControlClient, SaysThatNoDaemonIsThere) {
  const os::Scratch scratch;
  Asked asked;
  const auto answer = asked.run({{std::string(std::getenv("TRANCHE_BUILD")) + "/standins/nvidia-cuda-mps-control"},
                                 {{"CUDA_MPS_PIPE_DIRECTORY", scratch.path()}}},
                                60s, "get_server_list\n");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, Kind::kNotFound);
  EXPECT_THAT(answer.error().what, HasSubstr("Cannot find MPS control daemon process"));
}

TEST(ControlClient, DistinguishesAFailureOfOurOwnFromTheDaemons) {
  Asked asked;
  const auto answer = asked.run({{"/nowhere/at/all"}, {}}, 60s);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, Kind::kUnavailable);
  const auto failed = asked.run({{"/bin/false"}, {}}, 60s);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().what, HasSubstr("exited with status 1"));
}

TEST(ControlClient, AnswersNobodyWhoWithdrewTheQuestion) {
  const auto loop = *os::Loop::open();
  bool called = false;
  Sessions sessions(*loop, {{"/bin/sleep", "1000"}, {}});
  auto question = sessions.ask("", 60s, [&](const Result<std::string>&) { called = true; });
  question.reset();
  loop->after(5ms, [&] { loop->stop(); });
  loop->run();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace tranche::mps
