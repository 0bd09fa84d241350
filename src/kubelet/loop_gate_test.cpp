#include "kubelet/loop_gate.h"

#include <gtest/gtest.h>

#include <thread>

namespace tranche::host {
namespace {

using std::chrono::milliseconds;

TEST(LoopGate, ManyKnocksBeforeTheTurnAreOne) {
  const auto loop = *Loop::open();
  int turns = 0;
  LoopGate gate(*loop, [&] {
    ++turns;
    loop->stop();
  });
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) gate.knock();
  });
  other.join();
  loop->run();
  EXPECT_EQ(turns, 1);
}

TEST(LoopGate, WithAWaitWhatComesInMeanwhileIsTheSameTurn) {
  const auto loop = *Loop::open();
  int turns = 0;
  const MonoTime began = loop->now();
  MonoTime ended{};
  LoopGate gate(
      *loop,
      [&] {
        ++turns;
        ended = loop->now();
        loop->stop();
      },
      milliseconds(20));
  gate.knock();
  loop->after(milliseconds(5), [&] { gate.knock(); });
  loop->run();
  EXPECT_EQ(turns, 1);
  EXPECT_GE(ended - began, milliseconds(20));
}

TEST(LoopGate, KnocksDuringTheTurnCauseAnother) {
  const auto loop = *Loop::open();
  int turns = 0;
  LoopGate* self = nullptr;
  LoopGate gate(
      *loop,
      [&] {
        if (++turns == 2) return loop->stop();
        self->knock();
      },
      milliseconds(1));
  self = &gate;
  gate.knock();
  loop->run();
  EXPECT_EQ(turns, 2);
}

TEST(LoopGate, AGateThatIsGoneTakesNoTurnAlsoWhileItWaits) {
  const auto loop = *Loop::open();
  int turns = 0;
  auto gate = std::make_unique<LoopGate>(*loop, [&] { ++turns; }, milliseconds(5));
  gate->knock();
  loop->after(milliseconds(1), [&] { gate.reset(); });
  loop->after(milliseconds(20), [&] { loop->stop(); });
  loop->run();
  EXPECT_EQ(turns, 0);
}

}  // namespace
}  // namespace tranche::host
