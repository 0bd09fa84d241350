#include "kube/event_queue.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

namespace tranche::kube {
namespace event_queue_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr MonoTime kStart{1000s};
constexpr WallTime kWall{1'700'000'000s};

EventQueue queue() {
  return EventQueue({.node = "n1"});
}

ObjectRef pod(const std::string& name) {
  return ObjectRef::pod("team", name, "uid-" + name);
}

// All requests that can be sent at one moment, each accepted by the server.
std::vector<EventCall> drain(EventQueue& events, MonoTime now) {
  std::vector<EventCall> calls;
  while (const auto call = events.take(now)) {
    calls.push_back(*call);
    events.done(201, "", now);
  }
  return calls;
}

TEST(EventQueue, SendsANewEventToTheNamespaceOfItsObject) {
  auto events = queue();
  events.emit(pod("a"), kGuardActed, "used 9 GiB of 4 GiB", kStart, kWall);
  const auto calls = drain(events, kStart);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_TRUE(calls[0].create);
  EXPECT_EQ(calls[0].path, "/api/v1/namespaces/team/events");
  const auto body = Json::parse(calls[0].body);
  EXPECT_EQ(body["involvedObject"],
            Json({{"apiVersion", "v1"}, {"kind", "Pod"}, {"namespace", "team"}, {"name", "a"}, {"uid", "uid-a"}}));
  EXPECT_EQ(body["type"], "Warning");
  EXPECT_EQ(body["reason"], "GuardActed");
  EXPECT_EQ(body["message"], "used 9 GiB of 4 GiB");
  EXPECT_EQ(body["count"], 1);
  EXPECT_EQ(body["firstTimestamp"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(body["reportingComponent"], "tranche.io/node");
  EXPECT_EQ(body["source"]["host"], "n1");
  EXPECT_EQ(body["metadata"]["namespace"], "team");
  EXPECT_THAT(body["metadata"]["name"].get<std::string>(), HasSubstr("a."));
}

TEST(EventQueue, ANodesEventsAreInTheDefaultNamespaceUnderItsNameAsUid) {
  auto events = queue();
  events.emit(ObjectRef::node("n1"), kGpuHealthy, "GPU-1 is healthy", kStart, kWall);
  const auto calls = drain(events, kStart);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].path, "/api/v1/namespaces/default/events");
  const auto about = Json::parse(calls[0].body)["involvedObject"];
  EXPECT_EQ(about["uid"], "n1");
  EXPECT_FALSE(about.contains("namespace"));
}

// Promise: api-server/events: A repeated event becomes a count on one event.
TEST(EventQueue, ARepeatedEventBecomesACountOnTheSameEvent) {
  auto events = queue();
  events.emit(pod("a"), kGuardActed, "pid 71 used 9000 MiB", kStart, kWall);
  const auto first = drain(events, kStart);
  events.emit(pod("a"), kGuardActed, "pid 8 used 20 MiB", kStart + 60s, kWall + 60s);
  events.emit(pod("a"), kGuardActed, "pid 9 used 21 MiB", kStart + 61s, kWall + 61s);
  const auto second = drain(events, kStart + 61s);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_FALSE(second[0].create);
  EXPECT_EQ(second[0].path, first[0].path + "/" + Json::parse(first[0].body)["metadata"]["name"].get<std::string>());
  EXPECT_EQ(Json::parse(second[0].body),
            Json({{"count", 3}, {"lastTimestamp", "2023-11-14T22:14:21Z"}, {"message", "pid 9 used 21 MiB"}}));
}

TEST(EventQueue, AnotherReasonAnotherTextAndAnotherObjectAreOtherEvents) {
  auto events = queue();
  events.emit(pod("a"), kGuardActed, "one", kStart, kWall);
  events.emit(pod("a"), kMpsFault, "one", kStart, kWall);
  events.emit(pod("a"), kGuardActed, "two", kStart, kWall);
  events.emit(pod("b"), kGuardActed, "one", kStart, kWall);
  EXPECT_EQ(drain(events, kStart).size(), 4u);
}

TEST(EventQueue, AfterAnHourTheSameMessageIsANewEvent) {
  auto events = queue();
  events.emit(pod("a"), kGuardActed, "one", kStart, kWall);
  drain(events, kStart);
  events.emit(pod("a"), kGuardActed, "one", kStart + 61min, kWall + 61min);
  const auto calls = drain(events, kStart + 61min);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_TRUE(calls[0].create);
}

// Promise: api-server/events: One object has five events at once and then one every ten seconds.
TEST(EventQueue, OneObjectHasABurstOfFiveAndThenOneEveryTenSeconds) {
  auto events = queue();
  for (char c = 'a'; c < 'k'; ++c) events.emit(pod("x"), kGuardActed, std::string(1, c), kStart, kWall);
  EXPECT_EQ(drain(events, kStart).size(), 5u);
  ASSERT_TRUE(events.next(kStart));
  EXPECT_EQ(*events.next(kStart), kStart + 10s);
  EXPECT_EQ(drain(events, kStart + 9s).size(), 0u);
  EXPECT_EQ(drain(events, kStart + 10s).size(), 1u);
  EXPECT_EQ(drain(events, kStart + 40s).size(), 3u);
  events.emit(pod("y"), kGuardActed, "other objects are not held up", kStart + 40s, kWall);
  EXPECT_EQ(drain(events, kStart + 40s).size(), 1u);
}

// Promise: api-server/events: All objects together have ten events a second.
TEST(EventQueue, AllTogetherGetTenASecond) {
  auto events = queue();
  for (int i = 0; i < 40; ++i) events.emit(pod(fmt::format("p{}", i)), kGuardActed, "x", kStart, kWall);
  EXPECT_EQ(drain(events, kStart).size(), 10u);
  EXPECT_EQ(*events.next(kStart), kStart + 100ms);
  EXPECT_EQ(drain(events, kStart + 1s).size(), 10u);
  EXPECT_EQ(events.report().waiting, 20u);
}

// Promise: api-server/events: Events that do not fit are dropped, oldest first, and counted.
TEST(EventQueue, WhatDoesNotFitIsDroppedOldestFirstAndNamed) {
  auto events = EventQueue({.node = "n1", .most_waiting = 3});
  for (int i = 0; i < 5; ++i) events.emit(pod(fmt::format("p{}", i)), kGuardActed, "x", kStart, kWall);
  EXPECT_EQ(events.report().dropped, 2u);
  EXPECT_EQ(events.report().last_dropped, "Pod team/p1 GuardActed: too many wait");
  EXPECT_EQ(drain(events, kStart).size(), 3u);
}

TEST(EventQueue, IsTriedAgainWhenNobodyAnswersAndGivenUpWhenRefused) {
  auto events = queue();
  events.emit(pod("a"), kGuardActed, "x", kStart, kWall);
  const auto first = events.take(kStart);
  ASSERT_TRUE(first);
  EXPECT_FALSE(events.take(kStart)) << "one at a time";
  events.done(0, "no route", kStart);
  EXPECT_EQ(events.report().problem, "no route");
  EXPECT_FALSE(events.take(kStart)) << "not at once";
  const auto again = events.take(*events.next(kStart));
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->create);
  EXPECT_EQ(Json::parse(again->body)["metadata"]["name"], Json::parse(first->body)["metadata"]["name"])
      << "so that a first attempt that arrived is not reported twice";
  events.done(403, "forbidden", kStart + 1s);
  EXPECT_EQ(events.next(kStart + 60s), std::nullopt);
  EXPECT_THAT(events.report().last_dropped, HasSubstr("refuses"));
}

TEST(EventQueue, AnEventThatExpiredInTheServerIsMadeAnew) {
  auto events = queue();
  events.emit(pod("a"), kGuardActed, "x", kStart, kWall);
  drain(events, kStart);
  events.emit(pod("a"), kGuardActed, "x", kStart + 1s, kWall + 1s);
  const auto patch = events.take(kStart + 1s);
  ASSERT_TRUE(patch);
  events.done(404, "not found", kStart + 1s);
  const auto anew = events.take(*events.next(kStart + 1s));
  ASSERT_TRUE(anew);
  EXPECT_TRUE(anew->create);
  EXPECT_EQ(Json::parse(anew->body)["count"], 1);
}

TEST(EventQueue, EventsDuringARequestWaitForTheirOwn) {
  auto events = queue();
  events.emit(pod("a"), kGuardActed, "x", kStart, kWall);
  ASSERT_TRUE(events.take(kStart));
  events.emit(pod("a"), kGuardActed, "x", kStart, kWall);
  events.done(201, "", kStart);
  const auto second = events.take(kStart);
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->create);
  EXPECT_EQ(Json::parse(second->body)["count"], 2);
}

TEST(EventQueue, LongTextsAreCutBetweenCharactersAndBadBytesMadeGood) {
  auto events = queue();
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "é";
  events.emit(pod("a"), kGuardActed, text, kStart, kWall);
  events.emit(pod("b"), kGuardActed, "\xff", kStart, kWall);
  const auto calls = drain(events, kStart);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_LE(Json::parse(calls[0].body)["message"].get<std::string>().size(), kLongestMessage);
  EXPECT_EQ(Json::parse(calls[1].body)["message"], "\xef\xbf\xbd");
}

TEST(MessageClass, LeavesNumbersOutAndNamesIn) {
  EXPECT_EQ(class_of_message("pid 71 used 9000MiB (12.5%)"), "pid # used # (#)");
  EXPECT_EQ(class_of_message("GPU-00aa-11 and 0000-22"), "GPU-00aa-11 and 0000-22");
  EXPECT_EQ(class_of_message(""), "");
}

// Promise: api-server/events: The documented table of reasons is the program's.
TEST(EventReasons, AreTheTableOfTheDocument) {
  const char* source = std::getenv("TRANCHE_SOURCE");
  std::ifstream file((source != nullptr ? std::string(source) + "/" : std::string()) + "docs/reference/events.md");
  ASSERT_TRUE(file);
  const std::regex row(R"(^- `([A-Za-z]+)` \((Normal|Warning), (?:node|pod)\): .*$)");
  std::vector<std::string> theirs, ours;
  std::smatch match;
  for (std::string line; std::getline(file, line);)
    if (std::regex_match(line, match, row)) theirs.push_back(fmt::format("{}|{}", match.str(1), match.str(2)));
  for (const Reason& reason :
       {kGpuUnhealthy, kGpuHealthy, kMpsPoolDown, kMpsPoolServing, kPagesNotServed, kGuardActed, kMpsLimitNotUnderstood,
        kMpsLimitWithoutEffect, kMpsFault, kMpsTwoPools, kNeighbourAtRisk, kConfigRefused, kConfigApplied, kMigChanged,
        kMigWaiting, kMigFailed, kMigEviction})
    ours.push_back(fmt::format("{}|{}", reason.name, reason.warning ? "Warning" : "Normal"));
  EXPECT_EQ(theirs, ours);
}

}  // namespace event_queue_test
}  // namespace tranche::kube
