#pragma once
// A loop for tests, which run it until it is stopped, for a minute at most.
#include <gtest/gtest.h>

#include "os/loop/loop.h"
#include "run_until.h"

namespace tranche::os {

class LoopFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Loop::open();
    ASSERT_TRUE(opened) << to_string(opened.error());
    loop_ = std::move(*opened);
  }
  void run() { ASSERT_TRUE(run_until_stopped(*loop_)) << "nothing stopped the loop"; }

  std::unique_ptr<Loop> loop_;
};

}  // namespace tranche::os
