#pragma once
// A thread for calls that block (a kubelet question with a deadline), so that the loop never does. Jobs run one at a
// time in the order given. Destroying it lets the job in progress finish (give jobs a deadline), drops those waiting,
// and joins. Jobs that hang in a call without a deadline can be left behind instead.
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "os/loop/loop.h"

namespace tranche::os {

class Worker {
 public:
  static std::unique_ptr<Worker> start();      // for the start of a program: ends it if no thread can be started
  static std::unique_ptr<Worker> try_start();  // null: no thread can be started, because a pid limit is reached
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void run(std::function<void()> job);  // any thread
  // What the job returns runs on the loop, on whose thread this is destroyed; never after that.
  void run(Loop& loop, std::function<std::function<void()>()> job);
  // A job may never return: destroying this neither waits for the job in progress nor drops those waiting. All that a
  // job uses must belong to the job, because it may go on until the process ends.
  void leave_behind() { left_behind_ = true; }

 private:
  struct State;
  Worker();

  std::shared_ptr<State> state_;
  bool left_behind_ = false;
  std::thread thread_;
};

// The newest of a sequence of values that do not change: one thread puts them, others read them. A reader has the value
// of one moment for as long as it likes. Thread-safe.
template <class T>
class SharedBox {
 public:
  std::shared_ptr<const T> get() const {  // never null
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void put(std::shared_ptr<const T> value) {  // the former one ends outside the lock
    const std::lock_guard lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable std::mutex mutex_;  // not std::atomic<shared_ptr>: ThreadSanitizer reports this standard library's
  std::shared_ptr<const T> value_ = std::make_shared<T>();
};

}  // namespace tranche::os
