#include "standins/kubelet/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tranche::sim {

Result<std::unique_ptr<EventLoop>> EventLoop::open() {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return std::unexpected(error_from_errno(errno, "cannot create", "epoll"));
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    const int err = errno;
    ::close(epoll);
    return std::unexpected(error_from_errno(err, "cannot create", "eventfd"));
  }
  std::unique_ptr<EventLoop> loop(new EventLoop(epoll, wake));
  loop->watch(wake, [raw = loop.get()] { raw->run_posted(); });
  return loop;
}

EventLoop::~EventLoop() {
  ::close(epoll_);
  ::close(wake_);
}

void EventLoop::watch(int fd, Work on_readable) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  CHECK_THAT(::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0, "a descriptor cannot be watched");
  watched_[fd] = std::move(on_readable);
}

void EventLoop::forget(int fd) {
  if (watched_.erase(fd) > 0) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

std::uint64_t EventLoop::at(Time when, Work work) {
  timers_[{when, ++next_timer_}] = std::move(work);
  return next_timer_;
}

void EventLoop::cancel(std::uint64_t timer) {
  std::erase_if(timers_, [timer](const auto& entry) { return entry.first.second == timer; });
}

void EventLoop::post(Work work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

void EventLoop::after_each_turn(Work work) {
  each_turn_ = std::move(work);
}

void EventLoop::run_posted() {
  std::uint64_t count = 0;
  (void)!::read(wake_, &count, sizeof count);
  std::vector<Work> works;
  {
    const std::lock_guard lock(mutex_);
    works.swap(posted_);
  }
  for (const Work& work : works) work();
}

int EventLoop::milliseconds_to_next_timer() const {
  if (timers_.empty()) return -1;
  const auto left = timers_.begin()->first.first - std::chrono::steady_clock::now();
  const auto rounded_up = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(rounded_up, 0, 3'600'000));
}

void EventLoop::run_due_timers() {
  const Time now = std::chrono::steady_clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const Work work = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    work();
  }
}

void EventLoop::run() {
  if (each_turn_) each_turn_();
  while (!quitting_) {
    std::array<epoll_event, 16> events;
    const int count =
        ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), milliseconds_to_next_timer());
    run_due_timers();
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;  // a copy: the struct is packed
      const auto found = watched_.find(fd);
      if (found == watched_.end()) continue;  // forgotten by an earlier event of this iteration
      const Work work = found->second;        // a copy: it may forget itself
      work();
    }
    if (each_turn_) each_turn_();
  }
}

}  // namespace tranche::sim
