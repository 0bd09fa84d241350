#pragma once
// A thread for calls that block (a kubelet question with a deadline), so that the loop never does. Jobs run one at a
// time in the order given; results come back by Loop::post inside the job. Destroying it lets the job in progress
// finish (give jobs a deadline), drops those waiting, and joins. A job that hangs in a call without a deadline can be
// left behind instead.
#include <functional>
#include <memory>
#include <thread>

namespace tranche::os {

class Worker {
 public:
  static std::unique_ptr<Worker> start();      // for the start of a program: ends it if no thread can be started
  static std::unique_ptr<Worker> try_start();  // null: no thread can be started, because a pid limit is reached
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void run(std::function<void()> job);  // any thread
  // The job in progress may never return: destroying this does not wait for it. All that the job uses must belong to
  // the job, because it may go on until the process ends.
  void leave_behind() { left_behind_ = true; }

 private:
  struct State;
  Worker();

  std::shared_ptr<State> state_;
  bool left_behind_ = false;
  std::thread thread_;
};

}  // namespace tranche::os
