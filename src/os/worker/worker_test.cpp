#include "os/worker/worker.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <future>
#include <thread>
#include <vector>

namespace tranche::os {
namespace {

TEST(Worker, RunsJobsInOrder) {
  std::vector<int> order;
  std::promise<void> done;
  const auto worker = Worker::start();
  for (int i = 0; i < 100; ++i) worker->run([&order, i] { order.push_back(i); });
  worker->run([&] { done.set_value(); });
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(Worker, LetsTheJobInProgressFinishBeforeItEnds) {
  std::promise<void> entered;
  std::promise<void> let_go;
  bool finished = false;
  std::thread releaser;
  {
    const auto worker = Worker::start();
    worker->run([&] {
      entered.set_value();
      let_go.get_future().wait();
      finished = true;
    });
    entered.get_future().wait();
    releaser = std::thread([&] { let_go.set_value(); });
  }
  EXPECT_TRUE(finished);
  releaser.join();
}

TEST(Worker, DoesNotWaitForAJobThatItLeavesBehind) {
  struct Shared {
    std::promise<void> entered, let_go, finished;
  };
  const auto shared = std::make_shared<Shared>();
  {
    const auto worker = Worker::start();
    worker->run([shared] {
      shared->entered.set_value();
      shared->let_go.get_future().wait();
      shared->finished.set_value();
    });
    shared->entered.get_future().wait();
    worker->leave_behind();
  }
  shared->let_go.set_value();
  EXPECT_EQ(shared->finished.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

}  // namespace
}  // namespace tranche::os
