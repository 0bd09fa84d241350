#include "os/loop/loop.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "os/clock/clock.h"
#include "os/loop/fd.h"
#include "os/loop/loop_fixture.h"

namespace tranche::os {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class LoopTest : public LoopFixture {
 protected:
  std::pair<Fd, Fd> sockets() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    return {Fd(fds[0]), Fd(fds[1])};
  }
};

TEST_F(LoopTest, PostedTurnsRunInOrderFromEightThreads) {
  constexpr int kThreads = 8;
  constexpr int kEach = 2000;
  std::vector<std::vector<int>> seen(kThreads);
  int total = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        loop_->post([&, t, i] {
          seen[static_cast<std::size_t>(t)].push_back(i);
          if (++total == kThreads * kEach) loop_->stop();
        });
      }
    });
  }
  run();
  for (auto& thread : threads) thread.join();
  for (const auto& one : seen) {
    ASSERT_EQ(one.size(), static_cast<std::size_t>(kEach));
    EXPECT_TRUE(std::ranges::is_sorted(one));
  }
}

TEST_F(LoopTest, TurnsLeftInTheMailboxAreDroppedWithTheLoop) {
  const auto witness = std::make_shared<int>(1);
  loop_->post([witness] { FAIL() << "ran"; });
  EXPECT_EQ(witness.use_count(), 2);
  loop_.reset();
  EXPECT_EQ(witness.use_count(), 1);
}

TEST_F(LoopTest, CapturesMayCancelWhileTheLoopIsDestroyed) {
  struct Canceller {
    Loop* loop;
    Loop::Id id;
    ~Canceller() { loop->cancel(id); }
  };
  auto [a, b] = sockets();
  const auto timer = loop_->after(1h, [] {});
  const auto watch = loop_->watch(a.get(), EPOLLIN, [](std::uint32_t) {});
  loop_->after(1h, [c = std::make_shared<Canceller>(loop_.get(), watch)] {});
  loop_->watch(b.get(), EPOLLIN, [c = std::make_shared<Canceller>(loop_.get(), timer)](std::uint32_t) {});
  loop_.reset();
}

TEST_F(LoopTest, TimersFireByDeadlineAndThenInOrderOfAdding) {
  std::vector<int> fired;
  loop_->post([&] {  // one callback, so that all start at the same moment
    loop_->after(3ms, [&] {
      fired.push_back(4);
      loop_->stop();
    });
    loop_->after(1ms, [&] { fired.push_back(1); });
    loop_->after(1ms, [&] { fired.push_back(2); });
    loop_->after(2ms, [&] { fired.push_back(3); });
    loop_->after(-1ms, [&] { fired.push_back(0); });
  });
  run();
  EXPECT_THAT(fired, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(LoopTest, TimersAreNeverEarly) {
  MonoTime added;
  MonoTime fired;
  loop_->post([&] {
    added = loop_->now();
    loop_->after(2ms, [&] {
      fired = loop_->now();
      loop_->stop();
    });
  });
  run();
  EXPECT_GE(fired - added, 2ms);
}

TEST_F(LoopTest, ACancelledTimerDoesNotFireEvenWhenItIsDueInTheSameRound) {
  Loop::Id second = 0;
  loop_->post([&] {
    loop_->after(0ms, [&] { loop_->cancel(second); });
    second = loop_->after(0ms, [] { FAIL() << "was cancelled"; });
    loop_->after(0ms, [&] { loop_->stop(); });
  });
  run();
}

TEST_F(LoopTest, AFarTimerDoesNotHideANearOneThatIsAddedLater) {
  bool near = false;
  loop_->after(1h, [] { FAIL(); });
  loop_->after(Duration::max(), [] { FAIL(); });
  loop_->after(1ms, [&] {
    near = true;
    loop_->stop();
  });
  run();
  EXPECT_TRUE(near);
}

TEST_F(LoopTest, AChainOfZeroDelaysDoesNotStarveAWatch) {
  auto [ours, theirs] = sockets();
  std::function<void()> again = [&] { loop_->after(0ns, again); };
  again();
  loop_->watch(ours.get(), EPOLLIN, [&](std::uint32_t) { loop_->stop(); });
  ASSERT_EQ(::write(theirs.get(), "x", 1), 1);
  run();
}

TEST_F(LoopTest, AChainOfPostsDoesNotStarveATimer) {
  std::function<void()> again = [&] { loop_->post(again); };
  again();
  loop_->after(1ms, [&] { loop_->stop(); });
  run();
}

TEST_F(LoopTest, NowStandsStillDuringATurn) {
  loop_->post([&] {
    const auto first = loop_->now();
    const auto wall = loop_->wall_now();
    EXPECT_GT(wall, WallTime{});
    for (int i = 0; i < 100000; ++i) {
      ASSERT_EQ(loop_->now(), first);
      ASSERT_EQ(loop_->wall_now(), wall);
    }
    loop_->post([&, first] {
      EXPECT_GT(loop_->now(), first);
      loop_->stop();
    });
  });
  run();
}

TEST_F(LoopTest, AWatchMayCancelItselfInsideItsCallback) {
  auto [ours, theirs] = sockets();
  ASSERT_EQ(::write(theirs.get(), "x", 1), 1);
  int calls = 0;
  Loop::Id id = 0;
  const auto capture = std::make_shared<int>(7);
  id = loop_->watch(ours.get(), EPOLLIN, [&, capture](std::uint32_t events) {
    EXPECT_TRUE(events & EPOLLIN);
    ++calls;
    loop_->cancel(id);
    EXPECT_EQ(*capture, 7);  // still alive although cancelled
    loop_->after(1ms, [&] { loop_->stop(); });
  });
  run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(capture.use_count(), 1);
}

TEST_F(LoopTest, AWatchCancelledByAnotherOfTheSameRoundDoesNotRun) {
  auto [a, a_far] = sockets();
  auto [b, b_far] = sockets();
  ASSERT_EQ(::write(a_far.get(), "x", 1), 1);
  ASSERT_EQ(::write(b_far.get(), "x", 1), 1);
  Loop::Id ids[2] = {};
  int calls = 0;
  const auto cancel_both = [&](std::uint32_t) {
    ++calls;
    loop_->cancel(ids[0]);
    loop_->cancel(ids[1]);
    loop_->after(1ms, [&] { loop_->stop(); });
  };
  ids[0] = loop_->watch(a.get(), EPOLLIN, cancel_both);
  ids[1] = loop_->watch(b.get(), EPOLLIN, cancel_both);
  run();
  EXPECT_EQ(calls, 1);
}

TEST_F(LoopTest, ARecycledDescriptorDoesNotGetTheEventsOfItsPredecessor) {
  auto [a, a_far] = sockets();
  auto [b, b_far] = sockets();
  ASSERT_EQ(::write(a_far.get(), "x", 1), 1);
  ASSERT_EQ(::write(b_far.get(), "x", 1), 1);
  Fd* fds[2] = {&a, &b};
  Loop::Id ids[2] = {};
  bool done = false;
  for (int i = 0; i < 2; ++i) {
    ids[i] = loop_->watch(fds[i]->get(), EPOLLIN, [&, i](std::uint32_t) {
      ASSERT_FALSE(done);
      done = true;
      const int other = 1 - i;
      loop_->cancel(ids[other]);
      loop_->cancel(ids[i]);
      const int number = fds[other]->get();
      fds[other]->reset();
      // A new, quiet descriptor with the old number, watched in the same round.
      auto [quiet, quiet_far] = sockets();
      ASSERT_TRUE(quiet.get() == number || quiet_far.get() == number);
      loop_->watch(number, EPOLLIN, [](std::uint32_t) { FAIL() << "an event of the old descriptor"; });
      loop_->after(1ms, [this, q = std::make_shared<std::pair<Fd, Fd>>(std::move(quiet), std::move(quiet_far))] {
        loop_->stop();
      });
    });
  }
  run();
  EXPECT_TRUE(done);
}

TEST_F(LoopTest, ARegularFileCannotBeWatched) {
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file);
  EXPECT_EQ(loop_->watch(file.get(), EPOLLIN, [](std::uint32_t) {}), 0u);
}

TEST_F(LoopTest, UnknownIdsAreIgnored) {
  loop_->cancel(0);
  loop_->cancel(1);
  loop_->cancel(987654321);
}

TEST_F(LoopTest, SignalsArriveAsTurns) {
  std::vector<int> seen;
  ASSERT_TRUE(loop_->on_signals({SIGUSR1}, [&](int number) { seen.push_back(number); }));
  ASSERT_TRUE(loop_->on_signals({SIGUSR2}, [&](int number) {
    seen.push_back(number);
    loop_->stop();
  }));
  loop_->post([] {
    ::raise(SIGUSR1);
    ::raise(SIGUSR2);
  });
  run();
  EXPECT_THAT(seen, ElementsAre(SIGUSR1, SIGUSR2));
}

TEST_F(LoopTest, ASignalThatNobodyCanReceiveIsRefused) {
  const auto status = loop_->on_signals({SIGKILL}, [](int) {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, Kind::kInvalid);
}

TEST_F(LoopTest, StopBeforeRunEndsThatRunOnly) {
  loop_->stop();
  loop_->run();
  bool ran = false;
  loop_->post([&] {
    ran = true;
    loop_->stop();
  });
  run();
  EXPECT_TRUE(ran);
}

TEST_F(LoopTest, WhatWaitsAtStopRunsInTheNextRun) {
  std::vector<int> seen;
  loop_->post([&] {
    seen.push_back(1);
    loop_->stop();
  });
  loop_->post([&] {
    seen.push_back(2);
    loop_->stop();
  });
  run();
  EXPECT_THAT(seen, ElementsAre(1));
  run();
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST_F(LoopTest, AnotherThreadMayStopIt) {
  std::thread other([&] { loop_->stop(); });
  run();
  other.join();
}

TEST_F(LoopTest, TheWorstLatenessOfABeatIsKeptForTheNextBeats) {
  int beats = 0;
  Heartbeat heartbeat(
      *loop_,
      [&] {
        if (++beats == 3) loop_->stop();
      },
      10ms);
  loop_->post([] {
    for (const MonoTime until = mono_now() + 50ms; mono_now() < until;) continue;  // the loop is stuck
  });
  run();
  EXPECT_GE(heartbeat.worst_lateness(), 40ms) << "one beat was due within the first 10 ms";
}

}  // namespace
}  // namespace tranche::os
