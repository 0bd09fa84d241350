#include "os/loop/loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <iterator>

#include "os/clock/clock.h"

namespace tranche::os {

Loop::~Loop() {
  // Captures may cancel or post in their destructors: every container is consistent before its content is destroyed.
  const auto signal_turns = std::exchange(signal_turns_, {});
  const auto watches = std::exchange(watches_, {});
  deadlines_.clear();
  const auto timers = std::exchange(timers_, {});
  std::deque<std::function<void()>> posted;
  const std::lock_guard lock(mutex_);
  posted.swap(posted_);
}

MonoTime Loop::now() const {
  return in_turn_ ? now_ : mono_now();
}

WallTime Loop::wall_now() const {
  return in_turn_ ? wall_now_ : os::wall_now();
}

void Loop::begin_turn() {
  now_ = mono_now();
  wall_now_ = os::wall_now();
}

void Loop::post(std::function<void()> turn) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(turn));
  }
  if (first) wake();
}

void Loop::wake() {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the loop is awake already.
  [[maybe_unused]] const auto written = ::write(woken_.get(), &one, sizeof one);
}

Loop::Id Loop::after(Duration delay, std::function<void()> turn) {
  const MonoTime from = now();
  const Duration wait = std::max(delay, Duration::zero());
  const MonoTime deadline = wait > MonoTime::max() - from ? MonoTime::max() : from + wait;
  const Id id = next_id_++;
  timers_.emplace(std::pair(deadline, id), std::move(turn));
  deadlines_.emplace(id, deadline);
  return id;
}

Loop::Id Loop::watch(int fd, std::uint32_t epoll_events, std::function<void(std::uint32_t)> turn) {
  const Id id = next_id_++;
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return 0;
  watches_.emplace(id, std::make_shared<Watch>(fd, std::move(turn)));
  return id;
}

void Loop::cancel(Id id) {
  if (const auto deadline = deadlines_.extract(id)) {
    const auto dropped = timers_.extract({deadline.mapped(), id});  // destroyed last: its captures may call us
    return;
  }
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  const auto watch = std::move(found->second);
  watches_.erase(found);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watch->fd, nullptr);
}

Status Loop::on_signals(std::initializer_list<int> signals, std::function<void(int)> turn) {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const auto& [number, former] : signal_turns_) sigaddset(&wanted, number);
  for (const int number : signals) {
    if (number == SIGKILL || number == SIGSTOP || sigaddset(&wanted, number) != 0) {
      return fail(Kind::kInvalid, "signal " + std::to_string(number) + " cannot be received");
    }
  }
  const int fd = ::signalfd(signals_ ? signals_.get() : -1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return fail_errno("cannot receive signals", "signalfd");
  if (!signals_) {
    signals_ = Fd(fd);
    if (watch(fd, EPOLLIN, [this](std::uint32_t) { read_signals(); }) == 0)
      return fail_errno("cannot wait for signals", "epoll_ctl");
  }
  if (const int err = ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr); err != 0)
    return fail_errno("cannot block signals", "pthread_sigmask", err);
  const auto shared = std::make_shared<std::function<void(int)>>(std::move(turn));
  for (const int number : signals) signal_turns_[number] = shared;
  return {};
}

void Loop::run() {
  std::array<epoll_event, 64> events{};
  while (!stopping_.load(std::memory_order_acquire)) {
    arm_timer();
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0) {
      CHECK_THAT(errno == EINTR, "epoll_wait failed");
      continue;
    }
    in_turn_ = true;
    for (int i = 0; i < count && !stopping_.load(std::memory_order_acquire); ++i) {
      const epoll_event event = events[static_cast<std::size_t>(i)];
      const auto found = watches_.find(event.data.u64);
      if (found == watches_.end()) continue;  // an earlier callback of this round cancelled it
      const auto watch = found->second;       // keeps it while it runs: it may cancel itself
      begin_turn();
      watch->turn(event.events);
    }
    in_turn_ = false;
  }
  stopping_.store(false, std::memory_order_release);
}

void Loop::stop() {
  stopping_.store(true, std::memory_order_release);
  wake();
}

void Loop::read_posted() {
  std::uint64_t count = 0;
  // Fails only if no wake-up is pending, which is fine.
  [[maybe_unused]] const auto got = ::read(woken_.get(), &count, sizeof count);
  // Only closures that wait now: one that posts again runs after descriptors and timers.
  std::deque<std::function<void()>> turns;
  {
    const std::lock_guard lock(mutex_);
    turns.swap(posted_);
  }
  for (; !turns.empty() && !stopping_.load(std::memory_order_acquire); turns.pop_front()) {
    begin_turn();
    turns.front()();
  }
  if (turns.empty()) return;
  const std::lock_guard lock(mutex_);  // the next run() begins with these
  std::ranges::move(posted_, std::back_inserter(turns));
  posted_.swap(turns);
  wake();
}

void Loop::fire_timers() {
  std::uint64_t expirations = 0;
  // Nothing to read if the timer was set again after epoll reported it; only the heap decides what is due.
  [[maybe_unused]] const auto got = ::read(timer_.get(), &expirations, sizeof expirations);
  armed_for_ = MonoTime::max();
  // Timers that are added by timers wait for the next round, so that a chain of zero delays cannot starve other events.
  const std::pair due(mono_now(), next_id_);
  while (!timers_.empty() && !stopping_.load(std::memory_order_acquire)) {
    const auto& [deadline, id] = timers_.begin()->first;
    if (deadline > due.first || id >= due.second) break;
    deadlines_.erase(id);
    const auto timer = timers_.extract(timers_.begin());
    begin_turn();
    timer.mapped()();
  }
}

void Loop::read_signals() {
  signalfd_siginfo info{};
  while (!stopping_.load(std::memory_order_acquire) &&
         ::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int number = static_cast<int>(info.ssi_signo);
    const auto found = signal_turns_.find(number);
    if (found == signal_turns_.end()) continue;
    const auto turn = found->second;
    begin_turn();
    (*turn)(number);
  }
}

// Once before each wait, for all timers that were added since. Cancelling a timer leaves the descriptor armed: one
// early wake-up without a due timer costs less than a system call at every cancel.
void Loop::arm_timer() {
  if (timers_.empty() || timers_.begin()->first.first >= armed_for_) return;
  armed_for_ = timers_.begin()->first.first;
  const auto since_boot = std::max<Duration>(armed_for_.time_since_epoch(), Duration(1));  // zero would disarm
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
  itimerspec spec{};
  spec.it_value.tv_sec = static_cast<time_t>(seconds.count());
  spec.it_value.tv_nsec = static_cast<long>((since_boot - seconds).count());
  CHECK_THAT(::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr) == 0, "timerfd_settime failed");
}

Result<std::unique_ptr<Loop>> Loop::open() {
  const auto failed = [](const char* where) { return fail_errno("cannot open an event loop", where); };
  std::unique_ptr<Loop> loop(new Loop);
  loop->epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_) return failed("epoll_create1");
  loop->woken_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->woken_) return failed("eventfd");
  loop->timer_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!loop->timer_) return failed("timerfd_create");
  if (loop->watch(loop->woken_.get(), EPOLLIN, [self = loop.get()](std::uint32_t) { self->read_posted(); }) == 0 ||
      loop->watch(loop->timer_.get(), EPOLLIN, [self = loop.get()](std::uint32_t) { self->fire_timers(); }) == 0)
    return failed("epoll_ctl");
  return loop;
}

Heartbeat::Heartbeat(Loop& loop, std::function<void()> on_beat, Duration every)
    : loop_(loop), on_beat_(std::move(on_beat)), every_(every), last_(mono_now()) {
  wait();
}

Duration Heartbeat::age() const {
  return mono_now() - last_.load(std::memory_order_relaxed);
}

Duration Heartbeat::worst_lateness() const {
  return std::ranges::max(lateness_);
}

void Heartbeat::wait() {
  due_ = next_on_grid(loop_.now(), every_);
  timer_.start(due_ - loop_.now(), [this] { beat(); });
}

void Heartbeat::beat() {
  last_.store(mono_now(), std::memory_order_relaxed);
  lateness_[beats_++ % lateness_.size()] = loop_.now() - due_;
  wait();
  if (on_beat_) on_beat_();
}

}  // namespace tranche::os
