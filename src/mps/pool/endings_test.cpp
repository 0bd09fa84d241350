// Terminations that one run of the program began and the next one finishes, with sleeping processes.
#include "mps/pool/endings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "damage.h"
#include "os/files/scratch.h"
#include "run_until.h"

namespace tranche::host {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EndingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *Loop::open();
    start();
  }
  void TearDown() override {
    endings_.reset();
    processes_.clear();
  }
  void start() {
    endings_.reset();
    endings_ = std::make_unique<Endings>(*loop_, *Dir::open(scratch_.path()));
  }
  ProcessRef process() {
    auto made = Process::start(
        *loop_, {.argv = {"/bin/sleep", "600"}, .kill_on_drop = true}, [](const auto&) {}, [](ExitNote) {});
    EXPECT_TRUE(made);
    processes_.push_back(*std::move(made));
    return processes_.back()->ref();
  }
  bool until(const std::function<bool()>& condition) { return run_until(*loop_, condition, 60s); }
  static char state(const ProcessRef& ref) {
    const auto sight = look_at_process(ref.pid);
    return sight && sight->ref == ref ? sight->state : 'X';
  }
  static bool runs(const ProcessRef& ref) {
    return std::string_view("TtXZ").find(state(ref)) == std::string_view::npos;
  }
  bool ended(const ProcessRef& ref) {
    return until([&] { return state(ref) == 'X' || state(ref) == 'Z'; });
  }
  // As if the program were killed while it waits.
  void leave(const EndedProcesses& all) {
    endings_->begin({.patience = 60s}, all, [](const auto&) { FAIL() << "nothing has ended"; });
    for (const auto& ref : all.clients) ASSERT_TRUE(until([&] { return state(ref) == 'T'; }));
    for (const auto& ref : all.companions) ASSERT_TRUE(until([&] { return state(ref) == 'T'; }));
    endings_.reset();
  }
  std::vector<mps::Terminated> finish() {
    std::optional<std::vector<mps::Terminated>> outcomes;
    endings_->finish_left({.patience = 10ms}, [&](const auto& all) { outcomes = all; });
    EXPECT_TRUE(until([&] { return outcomes.has_value(); }));
    return outcomes.value_or(std::vector<mps::Terminated>{});
  }
  std::string file() const { return scratch_ / mps::kEndingFile; }

  Scratch scratch_;
  std::unique_ptr<Loop> loop_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::unique_ptr<Endings> endings_;
};

TEST_F(EndingsTest, AnEndThatWasBegunIsFinishedByTheNextStart) {
  const auto client = process(), companion = process(), other = process();
  leave({{client}, {companion}});
  EXPECT_EQ(mps::parse_ending(read_file(file()).value_or("")),
            (mps::EndingProcesses{{{client.pid, client.start_ticks}, mps::StoppedFor::kEnd},
                                  {{companion.pid, companion.start_ticks}, mps::StoppedFor::kContinue}}));
  start();
  const auto all = finish();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].pid, client.pid);
  EXPECT_EQ(all[0].outcome, mps::TerminateOutcome::kTerminated) << all[0].note;
  EXPECT_TRUE(ended(client));
  EXPECT_TRUE(until([&] { return runs(companion); })) << "it is continued";
  EXPECT_TRUE(runs(other));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(EndingsTest, ACompanionWhoseClientsHaveExitedIsContinued) {
  const auto client = process(), companion = process();
  leave({{client}, {companion}});
  ASSERT_EQ(::kill(client.pid, SIGKILL), 0);
  ASSERT_TRUE(ended(client));
  start();
  EXPECT_THAT(finish(), IsEmpty());
  EXPECT_TRUE(until([&] { return runs(companion); }));
}

TEST_F(EndingsTest, AProcessThatWasContinuedMeanwhileIsLeftAlone) {
  const auto client = process();
  leave({{client}});
  ASSERT_EQ(::kill(client.pid, SIGCONT), 0);
  ASSERT_TRUE(until([&] { return runs(client); }));
  start();
  EXPECT_THAT(finish(), IsEmpty());
  EXPECT_TRUE(runs(client));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(EndingsTest, OneThatBeginsBeforeTheOldAreFinishedForgetsNone) {
  const auto left = process(), now = process();
  leave({{left}});
  start();
  endings_->begin({.patience = 60s}, {{now}}, [](const auto&) {});
  EXPECT_THAT(mps::parse_ending(read_file(file()).value_or("")), SizeIs(2));
}

TEST_F(EndingsTest, WhateverBecameOfTheFileItCostsThatFactOnly) {
  for (const auto& kind : all_damage()) {
    SCOPED_TRACE(kind.name);
    const auto client = process(), other = process();
    leave({{client}});
    kind.spoil(file());
    start();
    for (const auto& each : finish()) EXPECT_EQ(each.pid, client.pid);
    EXPECT_TRUE(runs(other));
    EXPECT_TRUE(state(client) == 'T' || ended(client));
    std::optional<std::vector<mps::Terminated>> outcomes;
    endings_->begin({.patience = 10ms}, {{other}}, [&](const auto& all) { outcomes = all; });
    EXPECT_THAT(mps::parse_ending(read_file(file()).value_or("")), SizeIs(1)) << "the next is written";
    EXPECT_TRUE(until([&] { return outcomes.has_value(); }));
    EXPECT_TRUE(ended(other));
  }
}

}  // namespace
}  // namespace tranche::host
