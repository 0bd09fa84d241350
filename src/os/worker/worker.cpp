#include "os/worker/worker.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace tranche::host {
namespace {

class ThreadWorker final : public Worker {
 public:
  ThreadWorker() : thread_([this] { work(); }) {}

  ~ThreadWorker() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      jobs_.clear();
    }
    wake_.notify_one();
    thread_.join();
  }

  void run(std::function<void()> job) override {
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
      if (ending_) return;
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool ending_ = false;
  std::thread thread_;  // last: starts when everything above is there
};

}  // namespace

std::unique_ptr<Worker> Worker::start() {
  return std::make_unique<ThreadWorker>();
}

}  // namespace tranche::host
