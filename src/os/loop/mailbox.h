#pragma once
// Closures from other threads on their way to the loop: a queue and an eventfd that is readable while it is not empty.
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

  int fd() const { return eventfd_.get(); }
  void post(std::function<void()> turn);
  void wake();  // any thread

  std::size_t open();            // forgets the wake-up; how many are waiting now
  std::function<void()> take();  // the oldest; {} when there is none
  void close();                  // wakes again if some are left
  void clear();                  // drops what waits; the closures are destroyed outside the lock

 private:
  Fd eventfd_;
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace tranche::host
