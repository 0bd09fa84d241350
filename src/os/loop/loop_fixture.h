#pragma once
// A loop for tests, which run it until it is stopped, for a minute at most.
#include <gtest/gtest.h>

#include "os/loop/loop.h"

namespace tranche::os {

class LoopFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Loop::open();
    ASSERT_TRUE(opened) << to_string(opened.error());
    loop_ = std::move(*opened);
  }
  void run() {
    bool late = false;
    const auto deadline = loop_->after(std::chrono::minutes(1), [&] {
      late = true;
      loop_->stop();
    });
    loop_->run();
    loop_->cancel(deadline);
    ASSERT_FALSE(late) << "nothing stopped the loop";
  }

  std::unique_ptr<Loop> loop_;
};

}  // namespace tranche::os
