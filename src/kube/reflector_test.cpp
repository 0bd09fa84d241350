#include "kube/reflector.h"

#include <gmock/gmock.h>

namespace tranche::kube {
namespace reflector_test {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Do = Reflector::Do;
using State = Reflector::State;

constexpr MonoTime kStart{1000s};

ReflectorSettings settings() {
  return {.selector = "fieldSelector=spec.nodeName%3Dn1", .page = 2};
}

// A reflector that has listed and is in its first watch.
Reflector watching() {
  Reflector reflector(settings());
  reflector.next(kStart);
  reflector.on_page("10", "");
  reflector.next(kStart);
  return reflector;
}

TEST(Reflector, ListsFromWhatTheServerHasAtHandPageByPageThenWatches) {
  Reflector reflector(settings());
  const auto first = reflector.next(kStart);
  EXPECT_EQ(first.what, Do::kList);
  EXPECT_TRUE(first.first_page);
  EXPECT_EQ(first.query, "limit=2&resourceVersion=0&fieldSelector=spec.nodeName%3Dn1");
  EXPECT_EQ(reflector.next(kStart).what, Do::kNothing) << "one at a time";
  reflector.on_page("10", "to/ken");
  EXPECT_FALSE(reflector.known());
  const auto second = reflector.next(kStart);
  EXPECT_FALSE(second.first_page);
  EXPECT_EQ(second.query, "limit=2&continue=to%2Fken&fieldSelector=spec.nodeName%3Dn1");
  reflector.on_page("10", "");
  EXPECT_TRUE(reflector.known());
  const auto watch = reflector.next(kStart);
  EXPECT_EQ(watch.what, Do::kWatch);
  EXPECT_THAT(watch.query, AllOf(HasSubstr("watch=1&allowWatchBookmarks=true&timeoutSeconds="),
                                 HasSubstr("&resourceVersion=10&fieldSelector=")));
  EXPECT_EQ(reflector.state(), State::kWatching);
}

TEST(Reflector, AsksForWatchesOfFiveToTenMinutesOfDifferentLengths) {
  std::set<Duration> lengths;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    auto s = settings();
    s.seed = seed;
    Reflector reflector(s);
    reflector.next(kStart);
    reflector.on_page("10", "");
    const auto watch = reflector.next(kStart);
    EXPECT_GE(watch.lasts, 300s);
    EXPECT_LE(watch.lasts, 600s);
    EXPECT_THAT(watch.query, HasSubstr("timeoutSeconds=" + std::to_string(watch.lasts / 1s) + "&"));
    lengths.insert(watch.lasts);
  }
  EXPECT_GT(lengths.size(), 30u);
}

TEST(Reflector, ListsAgainWhenTheServerForgotTheVersionAtLeastAsNewAsWhatWasKnown) {
  auto reflector = watching();
  reflector.on_event("50");
  reflector.on_failed({410, "too old", {}}, kStart + 6s);
  EXPECT_EQ(reflector.state(), State::kWaiting);
  const auto again = reflector.next(*reflector.wake());
  EXPECT_EQ(again.what, Do::kList);
  EXPECT_THAT(again.query, HasSubstr("resourceVersion=50"));
  EXPECT_TRUE(again.first_page);
  reflector.on_failed({410, "too old", {}}, kStart + 8s);
  const auto newest = reflector.next(*reflector.wake());
  EXPECT_THAT(newest.query, Not(HasSubstr("resourceVersion"))) << "only the newest is left";
}

TEST(Reflector, WaitsLongerEachTimeUpToHalfAMinuteAndGoesOnFromWhereItWas) {
  auto reflector = watching();
  MonoTime now = kStart;
  Duration longest{};
  for (int i = 0; i < 20; ++i) {
    reflector.on_failed({0, "connection refused", {}}, now);
    EXPECT_EQ(reflector.reason(), "connection refused");
    ASSERT_TRUE(reflector.wake());
    const Duration wait = *reflector.wake() - now;
    EXPECT_GE(wait, 50ms);
    EXPECT_LE(wait, 30s);
    EXPECT_EQ(reflector.next(now).what, Do::kNothing);
    longest = std::max(longest, wait);
    now = *reflector.wake();
    const auto step = reflector.next(now);
    EXPECT_EQ(step.what, Do::kWatch);
    EXPECT_THAT(step.query, HasSubstr("resourceVersion=10&"));
  }
  EXPECT_GE(longest, 15s);
  reflector.on_event("12");
  reflector.on_failed({0, "cut", {}}, now);
  EXPECT_LE(*reflector.wake() - now, 100ms) << "an event resets the wait";
}

TEST(Reflector, AWatchThatEndsAtOnceIsNotOpenedAgainAtOnce) {
  auto reflector = watching();
  for (int i = 0; i < 5; ++i) {
    reflector.on_watch_end(kStart);
    EXPECT_EQ(reflector.next(kStart).what, Do::kNothing);
    ASSERT_TRUE(reflector.wake());
    reflector.next(*reflector.wake());
    reflector.on_watch_end(*std::optional(kStart));
  }
}

// Promise: api-server/watch: A refusal is repeated every five minutes, an overload as the server asks.
TEST(Reflector, DoesWhatTheServerAsksForAndIsPatientWithARefusal) {
  auto reflector = watching();
  reflector.on_failed({429, "slow down", 17s}, kStart);
  EXPECT_GE(*reflector.wake() - kStart, 17s);
  reflector.next(*reflector.wake());
  reflector.on_failed({403, "pods is forbidden", {}}, kStart);
  EXPECT_GE(*reflector.wake() - kStart, 300s) << "nobody is helped by asking every half minute";
  EXPECT_THAT(reflector.reason(), AllOf(HasSubstr("403: pods is forbidden"), HasSubstr("deploy/rbac/node.yaml")));
}

TEST(Reflector, AListThatBreaksOffBeginsAnew) {
  Reflector reflector(settings());
  reflector.next(kStart);
  reflector.on_page("10", "token");
  reflector.next(kStart);
  reflector.on_failed({500, "", {}}, kStart);
  EXPECT_TRUE(reflector.next(*reflector.wake()).first_page);
}

}  // namespace reflector_test
}  // namespace tranche::kube
