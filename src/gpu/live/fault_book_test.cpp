#include "gpu/live/fault_book.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace fault_book_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

PoolReports with(std::vector<PoolFault> faults) {
  PoolReports reports;
  reports.connected = true;
  PoolReport pool;
  pool.id = "gpu-1";
  pool.faults = std::move(faults);
  reports.pools["gpu-1"] = pool;
  return reports;
}

PoolFault fatal(std::int64_t at, std::int64_t culprit, std::vector<std::int64_t> victims) {
  return {.at_ms = at, .kind = "fatal", .culprit = culprit, .victims = std::move(victims), .server = 9};
}

// Promise: status: Faults name the pods of processes that have ended.
TEST(FaultBook, NamesThePodsOfProcessesThatHaveEnded) {
  FaultBook book;
  const MonoTime now{};
  book.update(with({}), MonoTime{});
  book.processes({{7, "g1"}, {8, "g2"}}, now);
  book.holders({{"g1", "default/trainer/main"}, {"g2", "default/neighbour/main"}});
  book.processes({}, now + std::chrono::seconds(5));  // both processes have ended
  book.holders({});                                   // and so have their pods
  const auto told = book.update(with({fatal(1, 7, {8, 12})}), now);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].culprit, (FaultParty{7, "g1", "default/trainer/main"}));
  EXPECT_EQ(told[0].victims, (std::vector<FaultParty>{{8, "g2", "default/neighbour/main"}, {12, "", ""}}));
  EXPECT_THAT(culprit_words(told[0]), HasSubstr("MPS names process 7 of default/trainer/main as the cause"));
  EXPECT_THAT(culprit_words(told[0]), HasSubstr("may be the cause as well")) << "measured: MPS can be wrong";
  EXPECT_THAT(culprit_words(told[0]), HasSubstr("2 clients of the same GPU ended with it"));
  EXPECT_THAT(victim_words(told[0]),
              HasSubstr("MPS names process 7 of default/trainer/main as the cause; it can start again"));
}

TEST(FaultBook, TellsEachFaultOnceAndNoneFromBeforeItsTime) {
  FaultBook book;
  EXPECT_THAT(book.update(with({fatal(1, 7, {})}), MonoTime{}), IsEmpty()) << "from before our start";
  EXPECT_THAT(book.last(), SizeIs(1)) << "and shown";
  EXPECT_THAT(book.update(with({fatal(1, 7, {}), fatal(2, 7, {})}), MonoTime{}), SizeIs(1));
  EXPECT_THAT(book.update(PoolReports{}, MonoTime{}), IsEmpty()) << "nobody answers";
  EXPECT_THAT(book.update(with({fatal(1, 7, {}), fatal(2, 7, {})}), MonoTime{}), IsEmpty());
  EXPECT_THAT(book.last(), SizeIs(2));
}

TEST(FaultBook, NeverNamesThePodThatHadTheSameSlotsBefore) {
  FaultBook book;
  const MonoTime now{};
  book.update(with({}), now);
  book.holders({{"g1", "default/former/main"}});
  book.given("g1");  // the same slots, so the same grant, for another pod
  book.processes({{7, "g1"}}, now);
  EXPECT_THAT(book.update(with({fatal(1, 7, {})}), now), IsEmpty()) << "kubelet has not said yet whose it is";
  EXPECT_TRUE(book.waiting());
  EXPECT_THAT(book.settled(now + FaultBook::kPatience - std::chrono::milliseconds(1)), IsEmpty());
  book.holders({{"g1", "default/latter/main"}});
  const auto told = book.settled(now + std::chrono::milliseconds(400));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].culprit.holder, "default/latter/main");
  EXPECT_FALSE(book.waiting());
  EXPECT_THAT(book.last(), SizeIs(1));
}

TEST(FaultBook, TellsWithoutANameWhenKubeletDoesNotSayInTime) {
  FaultBook book;
  const MonoTime now{};
  book.update(with({}), now);
  book.given("g1");
  book.processes({{7, "g1"}}, now);
  book.update(with({fatal(1, 7, {})}), now);
  const auto told = book.settled(now + FaultBook::kPatience);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].culprit, (FaultParty{7, "g1", ""}));
}

TEST(FaultBook, ForgetsWhoAProcessWasInTime) {
  FaultBook book;
  book.update(with({}), MonoTime{});
  book.processes({{7, "g1"}}, MonoTime{});
  book.processes({}, MonoTime{} + FaultBook::kRemembered + std::chrono::seconds(1));
  const auto told = book.update(with({fatal(1, 7, {})}), MonoTime{});
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].culprit.grant, "") << "the number may be another process' by now";
}

TEST(FaultBook, KeepsAFewAndSaysWhenNobodyElseWasHit) {
  FaultBook book;
  book.update(with({}), MonoTime{});
  std::vector<PoolFault> many;
  for (std::int64_t i = 0; i < 40; ++i)
    many.push_back({.at_ms = i, .kind = "unclean-exit", .culprit = i, .victims = {}, .server = 1});
  const auto told = book.update(with(many), MonoTime{});
  EXPECT_THAT(told, SizeIs(40));
  EXPECT_THAT(book.last(), SizeIs(FaultBook::kKept));
  EXPECT_EQ(book.last().back().at_ms, 39);
  EXPECT_THAT(culprit_words(told[3]), HasSubstr("process 3 ended without leaving MPS"));
  EXPECT_THAT(culprit_words(told[3]), HasSubstr("no other client was hit"));
}

}  // namespace fault_book_test
}  // namespace tranche::agent
