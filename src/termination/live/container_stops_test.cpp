#include "termination/live/container_stops.h"

#include <gmock/gmock.h>

#include "run_until.h"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kGrant = "00ff11ee22dd33cc";
constexpr const char* kOk = R"({"ok":true,"clients":[{"pid":71,"outcome":"terminated","note":"","waitedMs":2000},)"
                            R"({"pid":72,"outcome":"not-a-client","note":""}],"tookMs":2010})";

class StoppingPods : public ::testing::Test {
 protected:
  StoppingPods() { open(true); }
  void open(bool hook_offered) {
    StoppingCallbacks callbacks;
    callbacks.drain = [this](const stopping::Drain& drain, StoppingCallbacks::Done done) {
      asked_.push_back(drain);
      done_.push_back(std::move(done));
    };
    callbacks.on_event = [this](const StopEvent& event) { events_.push_back(event); };
    stopping_ = std::make_unique<Stopping>(*loop_, std::move(callbacks), hook_offered);
    stopping_->pods_changed({pod()});
    stopping_->holdings({{"default", "train", "main", "gpu-1", kGrant}});
    stopping_->clients(std::map<std::string, std::vector<pid_t>>{{kGrant, {71, 72}}});
  }
  static WatchedPod pod(const std::string& uid = "u1") {
    return {.uid = uid, .pod_namespace = "default", .name = "train", .containers = {{"main"}}};
  }
  WatchedPod deleted(Duration grace = 30s) const {
    auto changed = pod();
    changed.grace = grace;
    changed.seen = loop_->now();
    return changed;
  }
  WatchedPod gone() const {
    auto changed = deleted(0s);
    changed.gone = true;
    return changed;
  }
  void run_for(Duration time) {
    loop_->after(time, [this] { loop_->stop(); });
    loop_->run();
  }

  std::unique_ptr<host::Loop> loop_ = *host::Loop::open();
  std::vector<stopping::Drain> asked_;
  std::vector<StoppingCallbacks::Done> done_;
  std::vector<StopEvent> events_;
  std::unique_ptr<Stopping> stopping_;
};

TEST_F(StoppingPods, ARunningPodIsLeftAlone) {
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(StoppingPods, WhatIsGrantedAfterADeletionWasSeenIsTheNextPodsOfThatName) {
  stopping_->holdings({});
  stopping_->pods_changed({deleted(1s)});
  run_for(20ms);
  stopping_->granted(kGrant);  // to the next pod of the name, while the watch still reports the previous one
  stopping_->holdings({{"default", "train", "main", "gpu-1", kGrant}});
  stopping_->clients(std::map<std::string, std::vector<pid_t>>{{kGrant, {81}}});
  run_for(1200ms);
  EXPECT_THAT(asked_, IsEmpty());
}

// Promise: stop: The clients of a claim that was made by hand are ended with the only pod that uses it.
TEST_F(StoppingPods, AClaimOfNoPodIsEndedWithTheOnlyPodThatUsesIt) {
  const auto with_claim = [](WatchedPod pod, const char* name) {
    pod.name = name;
    pod.claims = {{"shared", "worker", ""}};
    pod.containers[0].name = "worker";
    return pod;
  };
  stopping_->holdings({{"default", "", "gpu", "gpu-1", kGrant, "shared"}});
  stopping_->pods_changed({with_claim(pod("u1"), "a"), with_claim(pod("u2"), "b")});
  auto going = with_claim(deleted(), "a");
  stopping_->pods_changed({going});
  EXPECT_THAT(asked_, IsEmpty()) << "pod b uses it too";
  auto over = with_claim(pod("u2"), "b");
  over.over = true;
  stopping_->pods_changed({over});
  ASSERT_THAT(asked_, SizeIs(1));
  EXPECT_EQ(asked_[0].pod, "a");
  EXPECT_EQ(asked_[0].container, "worker");
  EXPECT_EQ(asked_[0].grant, kGrant);
}

// Promise: stop: A deletion requests the end of the pod's clients at once and reports the result.
TEST_F(StoppingPods, ADeletionAsksAtOnceAndSaysWhatCameOfIt) {
  stopping_->pods_changed({deleted()});
  ASSERT_THAT(asked_, SizeIs(1));
  EXPECT_EQ(asked_[0].grant, kGrant);
  EXPECT_EQ(asked_[0].container, "main");
  EXPECT_TRUE(asked_[0].spare);
  done_[0](read_end_reply(kOk));
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_EQ(events_[0].what, StopEvent::What::kDrained);
  EXPECT_EQ(events_[0].uid, "u1");
  EXPECT_THAT(events_[0].message,
              HasSubstr("1 CUDA process was stopped, given 2000 ms for queued GPU work, and killed"));
  stopping_->pods_changed({deleted()});
  EXPECT_THAT(asked_, SizeIs(1)) << "the same again asks nothing";
  ASSERT_THAT(stopping_->report().recent, SizeIs(1));
  EXPECT_EQ(stopping_->report().recent[0].outcome, "ended");
}

TEST_F(StoppingPods, WhoWasSparedIsEndedByTheClockBeforeItsGraceEnds) {
  stopping_->set_stop_patience(100ms);
  stopping_->pods_changed({deleted(2600ms)});
  ASSERT_THAT(asked_, SizeIs(1));
  done_[0](read_end_reply(R"({"ok":true,"clients":[],"tookMs":1})"));
  EXPECT_THAT(events_, IsEmpty()) << "nothing has happened to anybody";
  EXPECT_EQ(stopping_->report().recent[0].outcome, "nothing to end");
  run_for(100ms);
  EXPECT_THAT(asked_, SizeIs(1));
  ASSERT_TRUE(host::run_until(*loop_, [&] { return asked_.size() == 2; }));
  EXPECT_FALSE(asked_[1].spare);
}

// Promise: stop: A client that could not be ended is a failure.
TEST_F(StoppingPods, AClientThatCouldNotBeEndedIsAFailure) {
  stopping_->pods_changed({deleted()});
  done_[0](read_end_reply(R"({"ok":true,"clients":[{"pid":71,"outcome":"refused","note":"EPERM"}],"tookMs":1})"));
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_EQ(events_[0].what, StopEvent::What::kDrainFailed);
  EXPECT_THAT(asked_, SizeIs(2)) << "tried once more";
}

TEST_F(StoppingPods, AContainerWithOurHookIsNotDrainedBeforeIt) {
  auto changed = deleted();
  changed.containers[0].hooked = true;
  stopping_->pods_changed({changed});
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(StoppingPods, AHookOfOursThatCannotStartCountsForNothing) {
  open(false);
  auto changed = deleted();
  changed.containers[0].hooked = true;
  stopping_->pods_changed({changed});
  EXPECT_THAT(asked_, SizeIs(1));
}

TEST_F(StoppingPods, AFailedDrainIsTriedOnceMoreAndThenReported) {
  stopping_->pods_changed({deleted()});
  done_[0](fail(Kind::kTimeout, "no answer"));
  ASSERT_THAT(asked_, SizeIs(2));
  done_[1](read_end_reply(R"({"ok":false,"error":"no such pool"})"));
  EXPECT_THAT(asked_, SizeIs(2));
  ASSERT_THAT(events_, SizeIs(2));
  EXPECT_EQ(events_[1].what, StopEvent::What::kDrainFailed);
  EXPECT_THAT(events_[1].message, HasSubstr("no such pool"));
}

TEST_F(StoppingPods, AForcedDeletionIsDrainedThoughNobodyListsThePodAnyMore) {
  stopping_->pods_changed({gone()});
  ASSERT_THAT(asked_, SizeIs(1));
  stopping_->holdings({});
  done_[0](fail(Kind::kTimeout, "no answer"));
  EXPECT_THAT(asked_, SizeIs(2)) << "tried once more";
  done_[1](read_end_reply(kOk));
  stopping_->holdings({{"default", "train", "main", "gpu-1", kGrant}});
  EXPECT_THAT(asked_, SizeIs(2));
}

// Promise: stop: The next pod of the same name and slots is left alone.
TEST_F(StoppingPods, TheNextPodOfTheSameNameAndSlotsIsNotTouched) {
  stopping_->pods_changed({gone()});
  ASSERT_THAT(asked_, SizeIs(1));
  stopping_->pods_changed({pod("u2")});
  done_[0](fail(Kind::kTimeout, "no answer"));
  EXPECT_THAT(asked_, SizeIs(1));
}

TEST_F(StoppingPods, AMirrorPodIsPassedOverSinceDeletingItStopsNothing) {
  auto changed = deleted();
  changed.mirror = true;
  stopping_->pods_changed({changed});
  changed.gone = true;
  stopping_->pods_changed({changed});
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(StoppingPods, WithoutClientsNothingIsDrainedAndWithoutKnowledgeItIs) {
  stopping_->clients(std::map<std::string, std::vector<pid_t>>{});
  stopping_->pods_changed({deleted()});
  EXPECT_THAT(asked_, IsEmpty());
  stopping_->clients(std::nullopt);
  EXPECT_THAT(asked_, SizeIs(1));
}

// Promise: stop: The container's own stop signal decides.
TEST_F(StoppingPods, TheContainersOwnStopSignalIsWhatIsJudged) {
  auto changed = deleted();
  changed.containers[0].stop_signal = 3;
  stopping_->pods_changed({changed});
  ASSERT_THAT(asked_, SizeIs(1));
  EXPECT_EQ(asked_[0].stop_signal, 3);
}

TEST_F(StoppingPods, AnAnswerAfterItsEndIsDropped) {
  stopping_->pods_changed({deleted()});
  stopping_.reset();
  done_[0](read_end_reply(kOk));
  EXPECT_THAT(events_, IsEmpty());
}

TEST(DrainHooks, AreKnownByTheirProgram) {
  const std::vector<std::string> ours{"/run/tranche/bin/tranche-drain", "--", "/bin/sh"};
  const std::vector<std::string> theirs{"/bin/sh", "-c", "tranche-drain"};
  EXPECT_TRUE(is_drain_hook(ours));
  EXPECT_FALSE(is_drain_hook(theirs));
  EXPECT_FALSE(is_drain_hook({}));
}

}  // namespace
}  // namespace tranche::agent
