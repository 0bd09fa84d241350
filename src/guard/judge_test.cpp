#include "guard/judge.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace judge_test {

using namespace std::chrono_literals;
using config::GuardForeignProcesses;
using config::GuardMemory;
using mps::TerminateOutcome;
using What = Order::What;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kGpu = "GPU-1";
constexpr const char* kGrant = "00ff11ee22dd33cc";
constexpr const char* kOther = "1111111111111111";

Process client(pid_t pid, std::uint64_t memory_mib, const std::string& grant = kGrant) {
  return {.id = {pid, static_cast<std::uint64_t>(pid)},
          .memory = mib(memory_mib),
          .mps_client = true,
          .grant = grant,
          .in_container = true};
}
Process foreign_process(pid_t pid, std::uint64_t memory_mib, const std::string& grant = kGrant) {
  Process process = client(pid, memory_mib, grant);
  process.mps_client = false;
  return process;
}

std::vector<pid_t> pids(const Order& order) {
  std::vector<pid_t> all;
  for (const Process& process : order.processes) all.push_back(process.id.pid);
  return all;
}

// One GPU with two grants of 4096 MiB. Each look advances the time by one sample.
class Judging : public testing::Test {
 protected:
  Judging() {
    set_policy(GuardMemory::kTerminateNewest);
    devices_ = {{.uuid = kGpu, .pool = "gpu-1", .processes = {}}};
  }
  void set_policy(GuardMemory policy) {
    for (const char* grant : {kGrant, kOther})
      inputs_.limits[{grant, kGpu}] = {"gpu-1", "nvidia.com/gpu", mib(4096), policy};
  }
  std::vector<Order> look(std::vector<Process> processes, Duration later = 100ms) {
    now_ += later;
    devices_[0].processes = std::move(processes);
    for (Device& device : devices_) device.clients_read = device.sampled = now_;
    verdict_ = judge(devices_, inputs_, memory_, now_ + 1ms);
    return verdict_.orders;
  }
  void answer(const Order& order, std::vector<mps::Terminated> clients) {
    now_ += 12ms;
    answered(memory_, order, clients, now_);
  }

  MonoTime now_{1000s};
  Inputs inputs_;
  Memory memory_;
  std::vector<Device> devices_;
  Verdict verdict_;
};

// docs/internals/evidence/shares.md: honest clients were up to 4 MiB above their limit.
// Promise: guard: A client up to its limit and its rounding is left alone.
TEST_F(Judging, NobodyIsTouchedUpToTheLimitAndItsRoundingToTheByte) {
  EXPECT_THAT(look({client(7, 4100), client(8, 2000, kOther), client(9, 2096, kOther)}), IsEmpty());
  EXPECT_FALSE(verdict_.open) << "nothing to look at again";
  Process over = client(7, 4096);
  over.memory.value += kRounding.value;
  EXPECT_THAT(look({over}), IsEmpty());
  over.memory.value += 1;
  EXPECT_THAT(look({over}), SizeIs(1));
}

TEST_F(Judging, TheNewestOfSeveralThatTogetherHoldTooMuchIsEnded) {
  const auto orders = look({client(9, 3000), client(7, 3000), client(8, 3000, kOther)});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].what, What::kTerminate);
  EXPECT_THAT(pids(orders[0]), ElementsAre(9));
  EXPECT_EQ(orders[0].grant, kGrant);
  EXPECT_EQ(orders[0].device, kGpu);
  EXPECT_EQ(orders[0].pool, "gpu-1");
  EXPECT_EQ(orders[0].resource, "nvidia.com/gpu");
  EXPECT_EQ(orders[0].policy, "terminate-newest");
  EXPECT_EQ(orders[0].sum, mib(6000));
  EXPECT_EQ(orders[0].limit, mib(4096));
  EXPECT_EQ(orders[0].since, now_);
}

TEST_F(Judging, TheStartShowsWhichIsNewestAndNotTheNumber) {
  Process wrapped = client(3, 3000);  // pids have wrapped around
  wrapped.id.start_ticks = 99;
  EXPECT_THAT(pids(look({wrapped, client(50, 3000)}).at(0)), ElementsAre(3));
}

// Promise: guard: `terminate-newest` ends as many of the newest processes as the others need to fit.
TEST_F(Judging, AsManyOfTheNewestAsItTakesForTheOthersToFit) {
  const auto first = look({client(1, 2000), client(2, 2000), client(3, 2000), client(4, 2000)});
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_THAT(pids(first[0]), ElementsAre(4, 3));
  EXPECT_THAT(look({client(1, 2000), client(2, 2000), client(3, 2000), client(4, 2000)}), IsEmpty())
      << "while MPS is at it";
  answer(first[0], {{4, TerminateOutcome::kTerminated, ""}, {3, TerminateOutcome::kTerminated, ""}});
  EXPECT_THAT(look({client(1, 2000), client(2, 2000)}), IsEmpty());
  EXPECT_FALSE(verdict_.open);
}

TEST_F(Judging, AnAnswerCountsForEachProcessThatIsStillKnown) {
  const auto first = look({client(1, 2000), client(2, 2000), client(3, 2000), client(4, 2000)});
  ASSERT_THAT(pids(first.at(0)), ElementsAre(4, 3));
  memory_.over.at({kGrant, kGpu}).processes.erase(os::ProcessRef{4, 4});
  answer(first[0], {{4, TerminateOutcome::kTerminated, ""}, {3, TerminateOutcome::kTerminated, ""}});
  EXPECT_TRUE(memory_.over.at({kGrant, kGpu}).ended.contains(3));
}

TEST_F(Judging, WhatComesInPlaceOfTheEndedIsEndedNext) {
  const auto first = look({client(1, 3000), client(2, 3000)});
  answer(first.at(0), {{2, TerminateOutcome::kTerminated, ""}});
  const auto second = look({client(1, 3000), client(3, 2000)});
  EXPECT_THAT(pids(second.at(0)), ElementsAre(3));
}

TEST_F(Judging, TimeIsCountedFromWhenTheOneThatIsEndedWasSeen) {
  const auto first = look({client(1, 5000)});
  answer(first.at(0), {{1, TerminateOutcome::kTerminated, ""}});
  // Another process replaces it before the sum was seen within the limit.
  const auto second = look({client(2, 5000)});
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].since, now_);
}

TEST_F(Judging, WhoHasEndedIsListedAMomentLongerAndNobodyEndsInItsPlace) {
  answer(look({client(1, 3000), client(2, 3000)}).at(0), {{2, TerminateOutcome::kTerminated, ""}});
  EXPECT_THAT(look({client(1, 3000), client(2, 3000)}, 5ms), IsEmpty());
  Process not_in_proc = client(2, 3000);
  not_in_proc.id.start_ticks = 0;
  EXPECT_THAT(look({client(1, 3000), not_in_proc}), IsEmpty());
  Process reborn = client(2, 3000);
  reborn.id.start_ticks = 77;
  EXPECT_THAT(look({client(1, 3000), reborn}), SizeIs(1)) << "another process with its number";
}

// Promise: guard: While a client exits that is being ended, no older one is ended in its place.
TEST_F(Judging, NobodyEndsInPlaceOfOneThatExitsWhileItIsEnded) {
  ASSERT_THAT(look({client(1, 3000), client(2, 3000)}), SizeIs(1));
  Process exited = client(2, 3000);
  exited.id.start_ticks = 0;
  EXPECT_THAT(look({client(1, 3000), exited}, 5ms), IsEmpty());
  EXPECT_THAT(look({client(1, 3000), exited}, 500ms), IsEmpty());
}

// Promise: guard: A client that remains is ended before a program that runs.
TEST_F(Judging, AClientThatRemainsIsEndedFirst) {
  Process exited = client(1, 3000);
  exited.id.start_ticks = 0;
  const auto orders = look({client(2, 3000), exited});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(pids(orders[0]), ElementsAre(1));
}

TEST_F(Judging, WhatTheEndedStillHoldIsNotCountedAgainstTheOthers) {
  answer(look({client(1, 3000), client(2, 3000)}).at(0), {{2, TerminateOutcome::kTerminated, ""}});
  EXPECT_THAT(look({client(1, 4200), client(2, 3000)}, 5ms), SizeIs(1)) << "more than the limit without it";
}

TEST_F(Judging, WhoIsToEndIsStoppedAndIsNoMoreOnceItHasEnded) {
  const auto orders = look({client(1, 3000), client(2, 3000)});
  ASSERT_THAT(memory_.stopped, SizeIs(1));
  EXPECT_EQ(memory_.stopped.begin()->first, (os::ProcessRef{2, 2}));
  answer(orders.at(0), {{2, TerminateOutcome::kTerminated, ""}});
  EXPECT_THAT(memory_.stopped, IsEmpty());
}

// The order takes as long as the queued work of a client may: seconds.
// Promise: guard: Siblings that grow meanwhile are stopped as well.
TEST_F(Judging, SiblingsThatGrowWhileOneIsBeingEndedAreStoppedTheSame) {
  look({client(1, 3000), client(2, 3000)});
  EXPECT_THAT(look({client(1, 4100), client(2, 3000)}), IsEmpty());
  const auto orders = look({client(1, 4200), client(2, 3000)});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(pids(orders[0]), ElementsAre(1));
  EXPECT_THAT(look({client(1, 4200), client(2, 3000)}), IsEmpty());
  EXPECT_THAT(pids(look({client(1, 4200), client(2, 3000), client(3, 4200)}).at(0)), ElementsAre(3));
}

// Promise: guard: A process that its container continues is stopped again.
TEST_F(Judging, WhoIsContinuedByItsContainerIsStoppedAgain) {
  look({client(1, 3000), client(2, 3000)});
  const auto orders = look({client(1, 3000), client(2, 3100)});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].what, What::kStop);
  EXPECT_TRUE(orders[0].again);
  EXPECT_THAT(pids(orders[0]), ElementsAre(2));
  EXPECT_THAT(look({client(1, 3000), client(2, 3100)}), IsEmpty());
}

// Promise: guard: With the first process of a container all its clients of the pool end.
TEST_F(Judging, WithTheFirstProcessOfAContainerAllItsClientsOfThePoolEnd) {
  Process first = client(1, 5000);
  first.first = true;
  devices_.push_back({.uuid = "MIG-2", .pool = "gpu-1", .processes = {client(4, 10), client(5, 10, kOther)}});
  devices_.push_back({.uuid = "GPU-3", .pool = "gpu-3", .processes = {client(6, 10)}});
  const auto orders = look({first, client(2, 0), client(3, 10, kOther)});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].what, What::kTerminate);
  EXPECT_THAT(pids(orders[0]), ElementsAre(1, 2, 4));
  EXPECT_THAT(memory_.stopped, SizeIs(3));
  EXPECT_THAT(look({first, client(2, 0), client(3, 10, kOther)}), IsEmpty()) << "once";
}

// Promise: guard: A first process beside MPS is killed after its container's clients have ended.
TEST_F(Judging, AFirstProcessBesideMpsIsKilledWhenTheClientsOfItsContainerHaveEnded) {
  Process first = foreign_process(1, 5000);
  first.first = true;
  const std::vector<Process> all{first, client(2, 0)};
  EXPECT_EQ(look(all).at(0).what, What::kStop) << "in doubt";
  look(all);
  const auto orders = look(all);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].what, What::kTerminate);
  EXPECT_THAT(pids(orders[0]), ElementsAre(2));
  EXPECT_THAT(look(all), IsEmpty());
  answer(orders[0], {{2, TerminateOutcome::kTerminated, ""}});
  const auto last = look({first});
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_EQ(last[0].what, What::kKill);
  EXPECT_THAT(pids(last[0]), ElementsAre(1));
}

// Promise: guard: Clients that have exited, whose memory the keeper still holds, are no reason to end others.
TEST_F(Judging, TheDeadAreNoReasonToEndOthers) {
  Process dead = client(3, 3000);
  dead.id.start_ticks = 0;
  dead.dead = true;
  EXPECT_THAT(look({client(1, 3000), dead}), IsEmpty());
  const auto orders = look({client(1, 3000), client(2, 3000), dead});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].what, What::kTerminate);
  EXPECT_THAT(pids(orders[0]), ElementsAre(2));
  EXPECT_EQ(orders[0].sum, mib(6000)) << "the living alone";
}

// Promise: guard: A stopped process continues when its tenant is within the limit again.
TEST_F(Judging, WhoIsNotToEndAnyMoreIsContinued) {
  const auto failed = look({client(1, 3000), client(2, 3000)});
  answer(failed.at(0), {});
  EXPECT_THAT(look({client(1, 3000), client(2, 3000)}, 10ms), IsEmpty()) << "it stays stopped while there is too much";
  const auto since = memory_.stopped.at({2, 2}).since;
  const auto orders = look({client(1, 1000), client(2, 3000)}, 10ms);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].what, What::kContinue);
  EXPECT_EQ(orders[0].grant, kGrant);
  EXPECT_EQ(orders[0].device, kGpu);
  EXPECT_EQ(orders[0].pool, "gpu-1");
  EXPECT_EQ(orders[0].resource, "nvidia.com/gpu");
  EXPECT_EQ(orders[0].policy, "terminate-newest");
  EXPECT_EQ(orders[0].limit, mib(4096));
  EXPECT_EQ(orders[0].since, since);
  EXPECT_EQ(orders[0].sum, mib(4000));
  EXPECT_THAT(pids(orders[0]), ElementsAre(2));
  EXPECT_THAT(look({client(1, 1000), client(2, 3000)}), IsEmpty());
  EXPECT_FALSE(verdict_.open);
}

TEST_F(Judging, WhoIsBeingEndedIsNotContinuedEvenIfTheOthersGaveWay) {
  look({client(1, 3000), client(2, 3000)});
  EXPECT_THAT(look({client(2, 3000)}), IsEmpty());
}

// Promise: guard: A changed policy continues stopped processes.
TEST_F(Judging, AnotherPolicyContinuesWhoWasStopped) {
  answer(look({client(1, 3000), client(2, 3000)}).at(0), {{2, TerminateOutcome::kRefused, "busy"}});
  set_policy(GuardMemory::kObserve);
  std::vector<What> said;
  for (const Order& order : look({client(1, 3000), client(2, 3000)})) said.push_back(order.what);
  EXPECT_THAT(said, ElementsAre(What::kReport, What::kContinue));
}

// memory_.stopped comes from the file of the agent that ran before.
// Promise: guard: After a restart the first figures decide about stopped processes.
TEST_F(Judging, AfterARestartTheFirstFiguresSayWhoStaysStopped) {
  const auto restart = [&] {
    memory_ = {};
    memory_.stopped[{2, 2}] = {{kGrant, kGpu}, now_};
  };
  restart();
  devices_.clear();
  verdict_ = judge(devices_, inputs_, memory_, now_ + 1s);
  EXPECT_THAT(verdict_.orders, IsEmpty()) << "there are no figures yet";
  EXPECT_TRUE(verdict_.open);
  devices_ = {{.uuid = kGpu, .pool = "gpu-1", .processes = {}}};
  EXPECT_EQ(look({client(2, 3000)}).at(0).what, What::kContinue);
  restart();
  EXPECT_EQ(look({client(1, 3000), client(2, 3000)}).at(0).what, What::kTerminate);
  restart();
  devices_.clear();
  verdict_ = judge(devices_, inputs_, memory_, now_ + 10s);
  ASSERT_THAT(verdict_.orders, SizeIs(1)) << "the GPU is not shared any more";
  EXPECT_EQ(verdict_.orders[0].what, What::kContinue);
}

TEST_F(Judging, TerminateAllEndsAllOfTheGrantAndNobodyElse) {
  set_policy(GuardMemory::kTerminateAll);
  const auto orders = look({client(1, 2100), client(2, 2100), client(3, 4000, kOther)});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(pids(orders[0]), ElementsAre(2, 1));
}

TEST_F(Judging, ObserveReportsEachCrossingOnce) {
  set_policy(GuardMemory::kObserve);
  const auto orders = look({client(1, 3000), client(2, 3000)});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].what, What::kReport);
  EXPECT_THAT(pids(orders[0]), ElementsAre(2, 1));
  EXPECT_THAT(look({client(1, 3000), client(2, 3100)}), IsEmpty());
  EXPECT_THAT(look({client(1, 3000)}), IsEmpty());
  EXPECT_THAT(look({client(1, 3000), client(2, 3000)}), SizeIs(1)) << "another crossing";
}

// Promise: guard: An order that is not carried out is repeated with pauses.
TEST_F(Judging, AnOrderThatNobodyCarriesOutIsGivenAgainWithPauses) {
  const std::vector<Process> processes{client(1, 5000)};
  int orders = 0;
  for (int sample = 0; sample < 100; ++sample) {  // ten seconds
    for (const Order& order : look(processes)) {
      ++orders;
      EXPECT_EQ(order.what, What::kTerminate);
      answer(order, {});
    }
  }
  EXPECT_THAT(orders, testing::AllOf(testing::Ge(4), testing::Le(9)));
  EXPECT_TRUE(verdict_.open);
}

TEST_F(Judging, AnAnswerBeginsThePausesAnew) {
  const auto order = look({client(1, 5000)}).at(0);
  answer(order, {});
  answer(order, {});
  const auto& process = memory_.over.at({kGrant, kGpu}).processes.at({1, 1});
  EXPECT_EQ(process.not_before, now_ + 200ms);
  answer(order, {{1, TerminateOutcome::kRefused, "busy"}});
  answer(order, {});
  EXPECT_EQ(process.not_before, now_ + 100ms);
}

// Promise: guard: A client that MPS does not end is not killed, and the next one is ended too.
TEST_F(Judging, AClientThatMpsWillNotEndIsNeverKilledAndTheNextIsEndedBesideIt) {
  const std::vector<Process> processes{client(1, 3000), client(2, 3000)};
  answer(look(processes).at(0), {{2, TerminateOutcome::kRefused, "busy"}});
  const auto again = look(processes);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_THAT(pids(again[0]), ElementsAre(2)) << "nobody else is ended in its place yet";
  answer(again[0], {{2, TerminateOutcome::kNotAClient, ""}});
  bool next_was_ended = false;
  for (int sample = 0; sample < 50; ++sample) {
    for (const Order& order : look(processes)) {
      EXPECT_EQ(order.what, What::kTerminate);
      next_was_ended = next_was_ended || std::ranges::count(pids(order), 1u) > 0;
      answer(order, {{2, TerminateOutcome::kNotAClient, ""}});
    }
  }
  EXPECT_TRUE(next_was_ended);
}

TEST_F(Judging, AProcessBesideMpsThatHoldsTooMuchIsKilledOnceTheDriverWasAskedAgain) {
  const auto doubt = look({foreign_process(1, 5000)});
  ASSERT_THAT(doubt, SizeIs(1));
  EXPECT_EQ(doubt[0].what, What::kStop) << "it may only not be listed yet";
  EXPECT_THAT(look({foreign_process(1, 5000)}), IsEmpty());
  const auto orders = look({foreign_process(1, 5000)});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].what, What::kKill);
  EXPECT_THAT(look({foreign_process(1, 5000)}), IsEmpty()) << "it takes a moment to end";
}

TEST_F(Judging, WhatTurnsOutToBeAClientIsEndedThroughMps) {
  look({foreign_process(1, 5000)});
  EXPECT_EQ(look({client(1, 5000)}).at(0).what, What::kTerminate);
}

TEST_F(Judging, ForeignProcessesWithinTheirLimitAreLeftAloneUnlessThePolicySaysElse) {
  for (int sample = 0; sample < 50; ++sample) EXPECT_THAT(look({foreign_process(1, 100)}), IsEmpty());
}

TEST_F(Judging, ForeignProcessesAreAskedToEndAndThenEnded) {
  inputs_.foreign_processes = GuardForeignProcesses::kTerminate;
  std::vector<What> said;
  Duration first{}, last{};
  for (Duration time = 0ms; time < 10s; time += 100ms) {
    for (const Order& order : look({foreign_process(1, 100)})) {
      (said.empty() ? first : last) = time;
      said.push_back(order.what);
      EXPECT_EQ(order.policy, "terminate");
    }
  }
  EXPECT_THAT(said, ElementsAre(What::kAskToEnd, What::kEnd));
  EXPECT_EQ(first, Duration(1s));
  EXPECT_EQ(last - first, Duration(2s));
}

// Promise: guard: The node's own processes and those outside containers are never ended.
TEST_F(Judging, TheNodesOwnAndProcessesOutsideOfContainersAreNeverEnded) {
  inputs_.foreign_processes = GuardForeignProcesses::kTerminate;
  Process server = foreign_process(1, 9000);
  server.ours = true;
  Process host = foreign_process(2, 9000, "");
  host.in_container = false;
  const Process nobodys = client(3, 9000, "");
  for (int sample = 0; sample < 50; ++sample) EXPECT_THAT(look({server, host, nobodys}), IsEmpty());
}

TEST_F(Judging, AReusedNumberIsAnotherProcess) {
  inputs_.foreign_processes = GuardForeignProcesses::kTerminate;
  look({foreign_process(1, 100)});
  Process reborn = foreign_process(1, 100);
  reborn.id.start_ticks = 77;
  EXPECT_THAT(look({reborn}, 5s), IsEmpty()) << "its own second begins now";
}

TEST_F(Judging, AGrantWithoutKnownLimitsIsNamed) {
  EXPECT_THAT(look({client(1, 100000, "2222222222222222")}), IsEmpty());
  EXPECT_THAT(verdict_.without_limit, ElementsAre("2222222222222222"));
}

TEST_F(Judging, EachDeviceIsJudgedByItself) {
  devices_.push_back({.uuid = "GPU-2", .pool = "gpu-2", .processes = {client(1, 3000)}, .clients_read = {}});
  inputs_.limits[{kGrant, "GPU-2"}] = {"gpu-2", "nvidia.com/gpu", mib(4096), GuardMemory::kTerminateNewest};
  EXPECT_THAT(look({client(1, 3000)}), IsEmpty()) << "3000 here and 3000 there";
}

}  // namespace judge_test
}  // namespace tranche::guard
