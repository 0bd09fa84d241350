#pragma once
// Closures from other threads for the loop: a queue and an eventfd that is readable while the queue is not empty.
// post() from any thread; the rest on the loop's thread.
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include "os/loop/fd.h"

namespace tranche::host {

class Mailbox {
 public:
  explicit Mailbox(Fd eventfd) : eventfd_(std::move(eventfd)) {}

  void post(std::function<void()> turn);
  void wake();  // any thread

  std::size_t open();            // clears the wake-up; returns how many closures wait now
  std::function<void()> take();  // the oldest; {} if there is none
  void close();                  // wakes again if some are left
  void clear();                  // drops all closures; they are destroyed outside the lock

 private:
  Fd eventfd_;
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace tranche::host
