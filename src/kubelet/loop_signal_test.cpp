#include "kubelet/loop_signal.h"

#include <gtest/gtest.h>

#include <thread>

namespace tranche::kubelet {
namespace {

using std::chrono::milliseconds;

TEST(LoopSignal, RaisedManyTimesBeforeTheCallbackIsOneCallback) {
  const auto loop = *os::Loop::open();
  int calls = 0;
  LoopSignal signal(*loop, [&] {
    ++calls;
    loop->stop();
  });
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) signal.raise();
  });
  other.join();
  loop->run();
  EXPECT_EQ(calls, 1);
}

TEST(LoopSignal, WithAWaitWhatComesInMeanwhileIsTheSameCallback) {
  const auto loop = *os::Loop::open();
  int calls = 0;
  const MonoTime began = loop->now();
  MonoTime ended{};
  LoopSignal signal(
      *loop,
      [&] {
        ++calls;
        ended = loop->now();
        loop->stop();
      },
      milliseconds(20));
  signal.raise();
  loop->after(milliseconds(5), [&] { signal.raise(); });
  loop->run();
  EXPECT_EQ(calls, 1);
  EXPECT_GE(ended - began, milliseconds(20));
}

TEST(LoopSignal, RaisedDuringTheCallbackItIsCalledAgain) {
  const auto loop = *os::Loop::open();
  int calls = 0;
  LoopSignal* self = nullptr;
  LoopSignal signal(
      *loop,
      [&] {
        if (++calls == 2) return loop->stop();
        self->raise();
      },
      milliseconds(1));
  self = &signal;
  signal.raise();
  loop->run();
  EXPECT_EQ(calls, 2);
}

TEST(LoopSignal, ASignalThatIsGoneCallsNothingAlsoWhileItWaits) {
  const auto loop = *os::Loop::open();
  int calls = 0;
  auto signal = std::make_unique<LoopSignal>(*loop, [&] { ++calls; }, milliseconds(5));
  signal->raise();
  loop->after(milliseconds(1), [&] { signal.reset(); });
  loop->after(milliseconds(20), [&] { loop->stop(); });
  loop->run();
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace tranche::kubelet
