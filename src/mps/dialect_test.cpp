#include "mps/dialect.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace dialect_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kGpu = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const DaemonLimits kLimits{{{kGpu, mib(14377)}}, Percent::whole(10)};
const std::string kHeading = "GPU  Partition  free  used  free  used  clients\n";

DaemonLimits with_partitions(std::vector<WantedPartition> partitions) {
  DaemonLimits limits = kLimits;
  limits.partitions = std::move(partitions);
  return limits;
}

// Gives one reply after the other; the inputs of all runs, and what it came to.
struct Talk {
  std::vector<std::string> inputs;
  std::optional<Event> event;
  Talk(Exchange exchange, const std::vector<std::string>& replies) {
    for (const auto& reply : replies) {
      inputs.push_back(exchange.run.input);
      Onward onward = exchange.then(reply);
      if (auto* done = std::get_if<Event>(&onward)) {
        event = *done;
        return;
      }
      exchange = std::get<Exchange>(std::move(onward));
    }
  }
  template <class E>
  const E* came_to() const {
    return event ? std::get_if<E>(&*event) : nullptr;
  }
};

TEST(Dialect, OfV2StartsAndAsksAsBefore) {
  const auto& v2 = dialect_of(Tier::kV2);
  EXPECT_THAT(v2.daemon_options(false), ElementsAre("-f"));
  EXPECT_THAT(v2.daemon_options(true), ElementsAre("-f", "-M"));
  EXPECT_EQ(v2.quit(std::chrono::seconds(10)), (mps::Run{{}, "quit -t 10\n"}));
  const Talk asked(v2.ask(7, kLimits), {"10.0\n12\n13\n", "ACTIVE\n10.0\n14G\n101\n", "Server 13 not found\n"});
  const auto* answered = asked.came_to<Answered>();
  ASSERT_NE(answered, nullptr);
  EXPECT_EQ(answered->id, 7u);
  ASSERT_EQ(answered->servers.size(), 1u) << "one that ended in between is nobody's fault";
  EXPECT_EQ(answered->servers[0].pid, 12);
  EXPECT_THAT(answered->servers[0].clients, ElementsAre(101));
}

TEST(Dialect, OfV2TellsAndReadsLimits) {
  const auto& v2 = dialect_of(Tier::kV2);
  const Talk told(v2.apply({1, kLimits}), {"10.0\n"});
  ASSERT_NE(told.came_to<LimitsApplied>(), nullptr);
  const Talk refused(v2.apply({2, kLimits}), {"Insufficient privileges for UID 7.\n"});
  ASSERT_NE(refused.came_to<QuestionFailed>(), nullptr);
  EXPECT_EQ(refused.came_to<QuestionFailed>()->error.kind, Kind::kDenied);
  const Talk read(v2.read({3, kLimits}), {"14G\n10.0\n"});
  ASSERT_NE(read.came_to<LimitsRead>(), nullptr);
  EXPECT_EQ(read.came_to<LimitsRead>()->values, (LimitsReadBack{{{kGpu, "14G"}}, "10.0"}));
  EXPECT_NE(Talk(v2.apply_server({4, 12, kLimits}), {"10.0\n"}).came_to<ServerLimitsApplied>(), nullptr);
}

TEST(StaticDialect, StartsWithTheOptionAndMakesThePartitionsThatAreMissing) {
  const auto& dialect = dialect_of(Tier::kStatic);
  EXPECT_THAT(dialect.daemon_options(true), ElementsAre("-f", "-M", "-S"));
  const auto limits = with_partitions({{kGpu, 4, 32, ""}, {kGpu, 8, 64, ""}});
  const Talk told(dialect.apply({1, limits}),
                  {"10.0\n", kHeading + kGpu + " - 12 4 100 32 -\n" + kGpu + " aaa - 4 - 32 -\n", kGpu + "/bbb\n"});
  ASSERT_NE(told.came_to<LimitsApplied>(), nullptr);
  ASSERT_EQ(told.inputs.size(), 3u);
  EXPECT_EQ(told.inputs[1], "lspart\n");
  EXPECT_EQ(told.inputs[2], "sm_partition add " + kGpu + " 8\n");
}

TEST(StaticDialect, SaysInTheDaemonsWordsWhatItWouldNotMake) {
  const auto limits = with_partitions({{kGpu, 4, 32, ""}});
  const Talk told(dialect_of(Tier::kStatic).apply({1, limits}),
                  {"10.0\n", kHeading, "The device has active clients\n"});
  const auto* failed = told.came_to<QuestionFailed>();
  ASSERT_NE(failed, nullptr);
  EXPECT_THAT(failed->error.what, HasSubstr("made 0 of 1 SM partitions and says \"The device has active clients\""));
}

TEST(StaticDialect, ChangesNothingWhileAClientRuns) {
  const auto limits = with_partitions({{kGpu, 8, 64, ""}});
  const Talk told(dialect_of(Tier::kStatic).apply({1, limits}), {"10.0\n", kGpu + " aaa - 4 - 32 Yes\n"});
  ASSERT_NE(told.came_to<QuestionFailed>(), nullptr);
  EXPECT_EQ(told.inputs.size(), 2u) << "the four chunks are not taken away either";
}

TEST(StaticDialect, TouchesNothingWhereEverythingIsThere) {
  const auto limits = with_partitions({{kGpu, 4, 32, "aaa"}});
  const Talk told(dialect_of(Tier::kStatic).apply({1, limits}), {"10.0\n", kGpu + " aaa - 4 - 32 Yes\n"});
  EXPECT_NE(told.came_to<LimitsApplied>(), nullptr);
  EXPECT_EQ(told.inputs.size(), 2u);
}

TEST(StaticDialect, ReadsPartitionsBackWithTheLimits) {
  const auto limits = with_partitions({{kGpu, 4, 32, ""}});
  const Talk read(dialect_of(Tier::kStatic).read({3, limits}), {"14G\n10.0\n", kGpu + " aaa - 4 - 32 -\n"});
  const auto* values = read.came_to<LimitsRead>();
  ASSERT_NE(values, nullptr);
  EXPECT_EQ(disagreement(limits, values->values), "");
  const Talk less(dialect_of(Tier::kStatic).read({3, limits}), {"14G\n10.0\n", kGpu + " aaa - 4 - 16 -\n"});
  EXPECT_THAT(disagreement(limits, less.came_to<LimitsRead>()->values),
              HasSubstr("has 16 SMs, and its 4 chunks should be 32"));
  const Talk none(dialect_of(Tier::kStatic).read({3, limits}), {"14G\n10.0\n", kHeading});
  EXPECT_THAT(disagreement(limits, none.came_to<LimitsRead>()->values), HasSubstr("is not listed"));
  const Talk mute(dialect_of(Tier::kStatic).read({3, limits}), {"14G\n10.0\n", "who knows\n"});
  EXPECT_NE(mute.came_to<QuestionFailed>(), nullptr);
}

}  // namespace dialect_test
}  // namespace tranche::mps
