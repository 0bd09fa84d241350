#include "mps/relay/tenant_sockets.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "mps/relay/relay_packet.h"

namespace tranche::mps {
namespace {

constexpr int kMostMessages = 1024;  // that are read before a socket counts as one with descriptors

// Discards what is queued. false: descriptors are, or too much to look at. Nothing more can come after the shutdown.
bool is_empty(const os::Fd& connection) {
  ::shutdown(connection.get(), SHUT_RDWR);
  RelayMessage packet;
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
  Interrupts() : end_(::eventfd(0, EFD_CLOEXEC)), worker_(end_ ? os::Worker::try_start() : nullptr) {
    struct sigaction does_nothing{};
    does_nothing.sa_handler = [](int) {};  // without SA_RESTART
    ::sigaction(kSignal, &does_nothing, nullptr);
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, kSignal);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    if (worker_)
      worker_->run([thread = ::gettid(), end = pollfd{end_.get(), POLLIN, 0}]() mutable {
        while (::poll(&end, 1, kInterruptEvery) == 0) ::syscall(SYS_tgkill, ::getpid(), thread, kSignal);
      });
  }
  ~Interrupts() {
    if (worker_) ::eventfd_write(end_.get(), 1);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  static constexpr int kSignal = SIGURG;  // not used elsewhere in the program

  os::Fd end_;
  std::unique_ptr<os::Worker> worker_;  // last, so that it is joined first
};

}  // namespace

TenantSockets::~TenantSockets() {
  if (closing_ > waiting_.size()) worker_->leave_behind();
  // No thread could be started. They stay open until the program ends, because closing one here could block for as long
  // as the tenant wants.
  static std::vector<os::Fd> left_open;
  std::ranges::move(waiting_, std::back_inserter(left_open));
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

void TenantSockets::close_file(os::Fd file) {
  ++closing_;
  waiting_.push_back(std::move(file));
  if (!worker_) worker_ = os::Worker::try_start();
  if (!worker_) return;  // the next call tries again
  for (auto& each : std::exchange(waiting_, {}))
    worker_->run(loop_, [this, fd = std::make_shared<os::Fd>(std::move(each))] {
      const Interrupts interrupts;
      fd->reset();
      return [this] {
        --closing_;
        on_closed_();
      };
    });
}

}  // namespace tranche::mps
