#include "os/worker/worker.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>

namespace tranche::os {

struct Worker::State {
  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [this] { return ending || !jobs.empty(); });
      if (jobs.empty()) return;
      auto job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      job();
      job = {};  // what it holds goes before the next one, and not under the lock
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> jobs;
  bool ending = false;
};

Worker::Worker() : state_(std::make_shared<State>()), thread_([state = state_] { state->work(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    if (!left_behind_) state_->jobs.clear();
  }
  state_->wake.notify_one();
  if (left_behind_)
    thread_.detach();  // it owns its state, and what its job uses
  else
    thread_.join();
}

void Worker::run(std::function<void()> job) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->ending) return;
    state_->jobs.push_back(std::move(job));
  }
  state_->wake.notify_one();
}

void Worker::run(Loop& loop, std::function<std::function<void()>()> job) {
  run([state = state_, &loop, job = std::move(job)] {
    auto turn = job();
    const std::lock_guard lock(state->mutex);
    if (state->ending) return;
    loop.post([state, turn = std::move(turn)] {
      if (!state->ending) turn();
    });
  });
}

std::unique_ptr<Worker> Worker::start() {
  return std::unique_ptr<Worker>(new Worker);
}

std::unique_ptr<Worker> Worker::try_start() {
  try {
    return start();
  } catch (const std::system_error&) {
    return nullptr;
  }
}

}  // namespace tranche::os
