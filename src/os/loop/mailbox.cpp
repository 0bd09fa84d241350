#include "os/loop/mailbox.h"

#include <unistd.h>

#include <cstdint>

namespace tranche::host {

void Mailbox::post(std::function<void()> turn) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = waiting_.empty();
    waiting_.push_back(std::move(turn));
  }
  if (first) wake();
}

void Mailbox::wake() {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the loop is awake already.
  [[maybe_unused]] const auto written = ::write(eventfd_.get(), &one, sizeof one);
}

std::size_t Mailbox::open() {
  std::uint64_t count = 0;
  // Fails only if no wake-up is pending, which is fine.
  [[maybe_unused]] const auto got = ::read(eventfd_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

std::function<void()> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return {};
  auto turn = std::move(waiting_.front());
  waiting_.pop_front();
  return turn;
}

void Mailbox::close() {
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    left = !waiting_.empty();
  }
  if (left) wake();
}

void Mailbox::clear() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(waiting_);
  }
}

}  // namespace tranche::host
