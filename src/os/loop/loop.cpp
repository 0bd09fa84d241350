#include "os/loop/loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

#include "os/clock/clock.h"
#include "os/loop/fd.h"
#include "os/loop/timers.h"

namespace tranche::os {
namespace {

// Closures from other threads for the loop: a queue and an eventfd that is readable while the queue is not empty.
// post() from any thread; the rest on the loop's thread.
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

// Tags of our own three descriptors in epoll's data; ids of watches are above them.
constexpr std::uint64_t kMailTag = 1;
constexpr std::uint64_t kTimerTag = 2;
constexpr std::uint64_t kSignalTag = 3;
constexpr std::uint64_t kFirstId = 16;

bool add_to_epoll(int epoll, int fd, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

class EpollLoop final : public Loop {
 public:
  EpollLoop(Fd epoll, Fd eventfd, Fd timer)
      : epoll_(std::move(epoll)), timer_(std::move(timer)), mailbox_(std::move(eventfd)) {}
  ~EpollLoop() override;
  EpollLoop(const EpollLoop&) = delete;
  EpollLoop& operator=(const EpollLoop&) = delete;

  MonoTime now() const override { return in_turn_ ? now_ : mono_now(); }
  WallTime wall_now() const override { return in_turn_ ? wall_now_ : os::wall_now(); }

  void post(std::function<void()> turn) override { mailbox_.post(std::move(turn)); }
  Id after(Duration delay, std::function<void()> turn) override;
  Id watch(int fd, std::uint32_t epoll_events, std::function<void(std::uint32_t)> turn) override;
  void cancel(Id id) override;
  Status on_signals(std::initializer_list<int> signals, std::function<void(int)> turn) override;
  void run() override;
  void stop() override;

 private:
  struct Watch {
    int fd = -1;
    std::function<void(std::uint32_t)> turn;
  };

  void begin_turn();
  void dispatch(const epoll_event& event);
  void read_mail();
  void fire_timers();
  void read_signals();
  void arm_timer();

  Fd epoll_;
  Fd timer_;
  Fd signals_;
  Mailbox mailbox_;
  Timers timers_;
  MonoTime armed_for_ = MonoTime::max();
  std::unordered_map<Id, std::shared_ptr<Watch>> watches_;
  sigset_t signal_set_{};
  std::map<int, std::shared_ptr<std::function<void(int)>>> signal_turns_;
  Id next_id_ = kFirstId;
  bool in_turn_ = false;
  MonoTime now_;
  WallTime wall_now_;
  std::atomic<bool> stopping_ = false;
};

EpollLoop::~EpollLoop() {
  // Captures may cancel or post in their destructors: every container is consistent before its content is destroyed.
  mailbox_.clear();
  timers_.clear();
  const auto watches = std::exchange(watches_, {});
  const auto signal_turns = std::exchange(signal_turns_, {});
}

void EpollLoop::begin_turn() {
  now_ = mono_now();
  wall_now_ = os::wall_now();
}

Loop::Id EpollLoop::after(Duration delay, std::function<void()> turn) {
  const MonoTime from = now();
  const Duration wait = std::max(delay, Duration::zero());
  const MonoTime deadline = wait > MonoTime::max() - from ? MonoTime::max() : from + wait;
  const Id id = next_id_++;
  timers_.add(id, deadline, std::move(turn));
  return id;
}

Loop::Id EpollLoop::watch(int fd, std::uint32_t epoll_events, std::function<void(std::uint32_t)> turn) {
  const Id id = next_id_++;
  if (!add_to_epoll(epoll_.get(), fd, epoll_events, id)) return 0;
  watches_.emplace(id, std::make_shared<Watch>(fd, std::move(turn)));
  return id;
}

void EpollLoop::cancel(Id id) {
  if (timers_.cancel(id)) return;
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  const auto watch = std::move(found->second);
  watches_.erase(found);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watch->fd, nullptr);
}

Status EpollLoop::on_signals(std::initializer_list<int> signals, std::function<void(int)> turn) {
  if (signal_turns_.empty()) sigemptyset(&signal_set_);
  sigset_t wanted = signal_set_;
  for (const int number : signals) {
    if (number == SIGKILL || number == SIGSTOP || sigaddset(&wanted, number) != 0) {
      return fail(Kind::kInvalid, "signal " + std::to_string(number) + " cannot be received");
    }
  }
  const int fd = ::signalfd(signals_ ? signals_.get() : -1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return std::unexpected(error_from_errno(errno, "cannot receive signals", "signalfd"));
  if (!signals_) {
    signals_ = Fd(fd);
    if (!add_to_epoll(epoll_.get(), fd, EPOLLIN, kSignalTag)) {
      return std::unexpected(error_from_errno(errno, "cannot wait for signals", "epoll_ctl"));
    }
  }
  if (const int err = ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr); err != 0) {
    return std::unexpected(error_from_errno(err, "cannot block signals", "pthread_sigmask"));
  }
  signal_set_ = wanted;
  const auto shared = std::make_shared<std::function<void(int)>>(std::move(turn));
  for (const int number : signals) signal_turns_[number] = shared;
  return {};
}

void EpollLoop::run() {
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
      dispatch(events[static_cast<std::size_t>(i)]);
    }
    in_turn_ = false;
  }
  stopping_.store(false, std::memory_order_release);
}

void EpollLoop::stop() {
  stopping_.store(true, std::memory_order_release);
  mailbox_.wake();
}

void EpollLoop::dispatch(const epoll_event& event) {
  const auto tag = event.data.u64;  // by value: the struct is packed
  switch (tag) {
    case kMailTag:
      return read_mail();
    case kTimerTag:
      return fire_timers();
    case kSignalTag:
      return read_signals();
    default:
      break;
  }
  // Absent if an earlier callback of this round cancelled it.
  const auto found = watches_.find(tag);
  if (found == watches_.end()) return;
  const auto watch = found->second;  // keeps it while it runs: it may cancel itself
  begin_turn();
  watch->turn(event.events);
}

void EpollLoop::read_mail() {
  // Only closures that wait now: one that posts again runs after descriptors and timers.
  for (auto count = mailbox_.open(); count > 0 && !stopping_.load(std::memory_order_acquire); --count) {
    const auto turn = mailbox_.take();
    if (!turn) break;
    begin_turn();
    turn();
  }
  mailbox_.close();
}

void EpollLoop::fire_timers() {
  std::uint64_t expirations = 0;
  // Nothing to read if the timer was set again after epoll reported it; only the heap decides what is due.
  [[maybe_unused]] const auto got = ::read(timer_.get(), &expirations, sizeof expirations);
  armed_for_ = MonoTime::max();
  const MonoTime due = mono_now();
  const Id limit = next_id_;
  while (!stopping_.load(std::memory_order_acquire)) {
    const auto turn = timers_.take_due(due, limit);
    if (!turn) break;
    begin_turn();
    turn();
  }
}

void EpollLoop::read_signals() {
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
void EpollLoop::arm_timer() {
  const auto earliest = timers_.earliest();
  if (!earliest || *earliest >= armed_for_) return;
  const auto since_boot = std::max<Duration>(earliest->time_since_epoch(), Duration(1));  // zero would disarm
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
  itimerspec spec{};
  spec.it_value.tv_sec = static_cast<time_t>(seconds.count());
  spec.it_value.tv_nsec = static_cast<long>((since_boot - seconds).count());
  CHECK_THAT(::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr) == 0, "timerfd_settime failed");
  armed_for_ = *earliest;
}

}  // namespace

Result<std::unique_ptr<Loop>> Loop::open() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return std::unexpected(error_from_errno(errno, "cannot open an event loop", "epoll_create1"));
  Fd mail(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!mail) return std::unexpected(error_from_errno(errno, "cannot open an event loop", "eventfd"));
  Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return std::unexpected(error_from_errno(errno, "cannot open an event loop", "timerfd_create"));
  if (!add_to_epoll(epoll.get(), mail.get(), EPOLLIN, kMailTag) ||
      !add_to_epoll(epoll.get(), timer.get(), EPOLLIN, kTimerTag)) {
    return std::unexpected(error_from_errno(errno, "cannot open an event loop", "epoll_ctl"));
  }
  return std::make_unique<EpollLoop>(std::move(epoll), std::move(mail), std::move(timer));
}

}  // namespace tranche::os
