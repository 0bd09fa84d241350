// Terminations that one run of the program began and the next one finishes, with sleeping processes.
#include "mps/pool/client_ending.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "damage.h"
#include "mps/keeper/held_files.h"
#include "mps/keeper/held_fixture.h"
#include "os/files/scratch_fixture.h"
#include "run_until.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EndingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *os::Loop::open();
    start();
  }
  void TearDown() override {
    endings_.reset();
    processes_.clear();
  }
  void start() {
    endings_.reset();
    endings_ = std::make_unique<Endings>(*loop_, *os::Dir::open(scratch_.path()));
  }
  os::ProcessRef process() {
    auto made = os::Process::start(*loop_, {.argv = {"/bin/sleep", "600"}, .kill_on_drop = true}, [](os::ExitNote) {});
    EXPECT_TRUE(made);
    processes_.push_back(*std::move(made));
    return processes_.back()->ref();
  }
  bool until(const std::function<bool()>& condition) { return os::run_until(*loop_, condition, 60s); }
  static char state(const os::ProcessRef& ref) {
    const auto sight = os::look_at_process(ref.pid);
    return sight && sight->ref == ref ? sight->state : 'X';
  }
  static bool runs(const os::ProcessRef& ref) {
    return std::string_view("TtXZ").find(state(ref)) == std::string_view::npos;
  }
  bool ended(const os::ProcessRef& ref) {
    return until([&] { return state(ref) == 'X' || state(ref) == 'Z'; });
  }
  // As if the program were killed while it waits.
  void leave(const std::vector<os::ProcessRef>& clients) {
    endings_->begin({.patience = 60s}, clients, [](const auto&) { FAIL() << "nothing has ended"; });
    for (const auto& ref : clients) ASSERT_TRUE(until([&] { return state(ref) == 'T'; }));
    endings_.reset();
  }
  std::vector<Terminated> finish() {
    std::optional<std::vector<Terminated>> outcomes;
    endings_->finish_left({.patience = 10ms}, [&](const auto& all) { outcomes = all; });
    EXPECT_TRUE(until([&] { return outcomes.has_value(); }));
    return outcomes.value_or(std::vector<Terminated>{});
  }
  std::string file() const { return scratch_ / kEndingFile; }

  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  std::vector<std::unique_ptr<os::Process>> processes_;
  std::unique_ptr<Endings> endings_;
};

TEST_F(EndingsTest, AnEndThatWasBegunIsFinishedByTheNextStart) {
  const auto client = process(), other = process();
  leave({client});
  EXPECT_EQ(parse_ending(os::read_file(file()).value_or("")), (EndingProcesses{{client.pid, client.start_ticks}}));
  start();
  const auto all = finish();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].pid, client.pid);
  EXPECT_EQ(all[0].outcome, TerminateOutcome::kTerminated) << all[0].note;
  EXPECT_TRUE(ended(client));
  EXPECT_TRUE(runs(other));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

// Promise: stop: A client that connects while the first process of its container is being ended gets its time as well.
TEST_F(EndingsTest, AClientThatComesMeanwhileIsStoppedAndWaitedFor) {
  const auto first = process(), late = process();
  int asked = 0;
  std::optional<std::vector<Terminated>> outcomes;
  endings_->begin({.patience = 10ms,
                   .killed_with =
                       [&](const std::vector<os::ProcessRef>& ending) {
                         EXPECT_EQ(ending[0], first);
                         EXPECT_EQ(ending.size(), ++asked == 1 ? 1u : 2u);
                         return std::vector{late};
                       },
                   .patience_with_those = 300ms},
                  {first}, [&](const auto& all) { outcomes = all; });
  EXPECT_TRUE(until([&] { return state(late) == 'T'; }));
  EXPECT_EQ(parse_ending(os::read_file(file()).value_or("")),
            (EndingProcesses{{first.pid, first.start_ticks}, {late.pid, late.start_ticks}}));
  EXPECT_EQ(state(first), 'T') << "it is not killed before the other has had its time";
  EXPECT_TRUE(until([&] { return outcomes.has_value(); }));
  ASSERT_THAT(*outcomes, SizeIs(2));
  for (const auto& each : *outcomes) {
    EXPECT_EQ(each.outcome, TerminateOutcome::kTerminated) << each.note;
    EXPECT_GE(std::stoi(each.note.substr(7)), 300) << each.note;  // "waited … ms for its queued GPU work"
  }
  EXPECT_EQ(asked, 2) << "before each kill that was about to happen";
}

// Promise: stop: A request to end clients that is repeated costs one descriptor a process.
TEST_F(EndingsTest, OneForProcessesThatAreBeingEndedJoinsThatOne) {
  const auto client = process(), other = process();
  std::vector<std::size_t> outcomes;
  const auto note = [&](const std::vector<Terminated>& all) { outcomes.push_back(all.size()); };
  endings_->begin({.patience = 300ms}, {client, other}, note);
  const auto descriptors = [] { return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/fd")); };
  const auto before = descriptors();
  for (int i = 0; i < 16; ++i) endings_->begin({.patience = 300ms}, {client}, note);
  EXPECT_EQ(descriptors(), before);
  EXPECT_TRUE(until([&] { return outcomes.size() == 17; }));
  EXPECT_THAT(outcomes, ::testing::Each(2u)) << "with the outcomes of all of its clients";
}

// Its own container can continue it at any time, also between two runs of the program.
// Promise: stop: An ending that a killed program began is taken up again, also if the client was continued meanwhile.
TEST_F(EndingsTest, OneThatWasContinuedMeanwhileIsEndedAllTheSame) {
  const auto client = process();
  leave({client});
  ASSERT_EQ(::kill(client.pid, SIGCONT), 0);
  ASSERT_TRUE(until([&] { return runs(client); }));
  start();
  bool was_stopped = false;
  std::optional<std::vector<Terminated>> outcomes;
  endings_->finish_left({.patience = 200ms}, [&](const auto& all) { outcomes = all; });
  EXPECT_TRUE(until([&] {
    was_stopped |= state(client) == 'T';
    return outcomes.has_value();
  }));
  EXPECT_TRUE(was_stopped) << "it is stopped again, so that its queued work runs out";
  ASSERT_THAT(outcomes.value_or(std::vector<Terminated>{}), SizeIs(1));
  EXPECT_TRUE(ended(client));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(EndingsTest, AnotherProcessWithTheNumberOfOneIsLeftAlone) {
  const auto other = process();
  {
    const auto root = *os::Dir::open(scratch_.path());
    ASSERT_TRUE(root.write_atomically(kEndingFile, render_ending({{other.pid, other.start_ticks + 1}})));
  }
  start();
  EXPECT_THAT(finish(), IsEmpty());
  EXPECT_TRUE(runs(other));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

// A helper of its container continues it as often as it likes. What protects the neighbours is the keeper's duplicates.
// Promise: stop: A client that a helper continues is ended after one wait, and its GPU work is torn down in order.
TEST_F(EndingsTest, AClientThatAHelperContinuesIsEndedAfterOneWaitAndStaysHeld) {
  HoldsDevices client(4);
  HeldFiles held;
  held.look(client.pid(), client.pidfd(), NvidiaDevices::parse(kTerminalsAreUvm));
  const pid_t helper = ::fork();
  if (helper == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (::kill(client.pid(), SIGCONT) == 0) ::sched_yield();
    ::_exit(0);
  }
  std::optional<std::vector<Terminated>> outcomes;
  int waits = 0;
  endings_->begin({.patience = 100ms,
                   .killed_with =
                       [&](const auto&) {
                         ++waits;
                         return std::vector<os::ProcessRef>{};
                       }},
                  {client.ref()}, [&](const auto& all) { outcomes = all; });
  EXPECT_TRUE(until([&] { return outcomes.has_value(); }));
  ::kill(helper, SIGKILL);
  ::waitpid(helper, nullptr, 0);
  ASSERT_THAT(outcomes.value_or(std::vector<Terminated>{}), SizeIs(1));
  EXPECT_EQ(outcomes->front().outcome, TerminateOutcome::kTerminated) << outcomes->front().note;
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(client.closed(), 0U) << "the driver still has its descriptors open";
  auto files = held.take();
  close_in_order(files);
  EXPECT_EQ(client.closed(), 4U);
}

TEST_F(EndingsTest, OneThatBeginsBeforeTheOldAreFinishedForgetsNone) {
  const auto left = process(), now = process();
  leave({left});
  start();
  endings_->begin({.patience = 60s}, {now}, [](const auto&) {});
  EXPECT_THAT(parse_ending(os::read_file(file()).value_or("")), SizeIs(2));
}

TEST_F(EndingsTest, WhateverBecameOfTheFileItCostsThatFactOnly) {
  for (const auto& kind : all_damage()) {
    SCOPED_TRACE(kind.name);
    const auto client = process(), other = process();
    leave({client});
    kind.spoil(file());
    start();
    for (const auto& each : finish()) EXPECT_EQ(each.pid, client.pid);
    EXPECT_TRUE(runs(other));
    EXPECT_TRUE(state(client) == 'T' || ended(client));
    std::optional<std::vector<Terminated>> outcomes;
    endings_->begin({.patience = 10ms}, {other}, [&](const auto& all) { outcomes = all; });
    EXPECT_THAT(parse_ending(os::read_file(file()).value_or("")), SizeIs(1)) << "the next is written";
    EXPECT_TRUE(until([&] { return outcomes.has_value(); }));
    EXPECT_TRUE(ended(other));
  }
}

}  // namespace
}  // namespace tranche::mps
