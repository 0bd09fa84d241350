#include "mps/relay/tenant_sockets.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "mps/relay/relay_packet.h"

namespace tranche::mps {
namespace {

constexpr int kMostMessages = 1024;  // that are read before a socket counts as one with descriptors

// Discards what is queued. false: descriptors are, or too much to look at. Nothing more can come after the shutdown.
bool is_empty(const os::Fd& connection) {
  ::shutdown(connection.get(), SHUT_RDWR);
  RelayPacket packet;
  for (int i = 0; i < kMostMessages; ++i) {
    if (receive_from_tenant(connection.get(), packet) == Arrival::kEnd) return true;
    if (packet.truncated) return false;
  }
  return false;
}

constexpr int kInterruptEvery = 20;  // milliseconds

// While it lives, the calling thread's waits in the kernel are interrupted every 20 ms, by a thread and a standard
// signal: a timer's signal, or a real-time one, needs an entry in the kernel's queue of signals, whose number is
// limited for each user, and root in a container can use up root's.
class Interrupts {
 public:
  Interrupts() : thread_to_interrupt_(::gettid()), end_(::eventfd(0, EFD_CLOEXEC)) {
    struct sigaction does_nothing{};
    does_nothing.sa_handler = [](int) {};  // without SA_RESTART
    ::sigaction(kSignal, &does_nothing, nullptr);
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, kSignal);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    started_ = end_ && ::pthread_create(&thread_, nullptr, &run, this) == 0;
  }
  ~Interrupts() {
    if (!started_) return;
    ::eventfd_write(end_.get(), 1);
    ::pthread_join(thread_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  static constexpr int kSignal = SIGURG;  // not used elsewhere in the program
  static void* run(void* self) {
    const auto& interrupts = *static_cast<const Interrupts*>(self);
    pollfd end{interrupts.end_.get(), POLLIN, 0};
    while (::poll(&end, 1, kInterruptEvery) == 0)
      ::syscall(SYS_tgkill, ::getpid(), interrupts.thread_to_interrupt_, kSignal);
    return nullptr;
  }

  pid_t thread_to_interrupt_;
  os::Fd end_;
  pthread_t thread_{};
  bool started_ = false;
};

}  // namespace

struct TenantSockets::State {
  void close_all() {
    const Interrupts interrupts;
    std::unique_lock lock(mutex);
    running = true;
    changed.notify_all();
    while (!waiting.empty()) {
      os::Fd fd = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      fd.reset();
      lock.lock();
      --closing;
      if (loop != nullptr) loop->post(on_closed);
    }
    running = started = false;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<os::Fd> waiting;
  std::size_t closing = 0;
  bool started = false, running = false;
  os::Loop* loop = nullptr;  // null: the owner has gone
  std::function<void()> on_closed;
};

TenantSockets::TenantSockets(os::Loop& loop, std::function<void()> on_closed) : state_(std::make_shared<State>()) {
  state_->loop = &loop;
  state_->on_closed = [weak = std::weak_ptr(state_), on_closed = std::move(on_closed)] {
    const auto state = weak.lock();
    if (state && state->loop != nullptr) on_closed();
  };
}

TenantSockets::~TenantSockets() {
  std::unique_lock lock(state_->mutex);
  state_->loop = nullptr;
  // No thread could be started. The sockets stay open until the program ends, because closing one here could block for
  // as long as the tenant wants.
  static std::vector<std::shared_ptr<State>> left_open;
  if (!state_->started && !state_->waiting.empty()) left_open.push_back(state_);
  // A job that has not begun would be dropped, and what it closes would be closed here.
  state_->changed.wait(lock, [this] { return !state_->started || state_->running; });
  if (worker_ && state_->started) worker_->leave_behind();
}

void TenantSockets::close(os::Fd connection) {
  if (connection && !is_empty(connection)) close_file(std::move(connection));
}

void TenantSockets::close_listening(os::Fd listening) {
  if (!listening) return;
  ::shutdown(listening.get(), SHUT_RDWR);  // no connection is added
  while (true) {
    os::Fd fd(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd && is_empty(fd)) continue;
    if (!fd && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd && (errno == EINVAL || errno == EAGAIN)) return;
    // Descriptors were left, or none of ours is free: the rest is closed with the listening socket, and needs no more.
    if (fd) close_file(std::move(fd));
    return close_file(std::move(listening));
  }
}

std::size_t TenantSockets::closing() const {
  const std::lock_guard lock(state_->mutex);
  return state_->closing;
}

void TenantSockets::close_file(os::Fd file) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->waiting.push_back(std::move(file));
    ++state_->closing;
    if (std::exchange(state_->started, true)) return;
  }
  if (!worker_) worker_ = os::Worker::try_start();
  if (worker_) return worker_->run([state = state_] { state->close_all(); });
  const std::lock_guard lock(state_->mutex);
  state_->started = false;  // the next call tries again
}

}  // namespace tranche::mps
