#include "mps/daemon/ping.h"
#include "base/grid.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tranche::host {
namespace {

constexpr Duration kHeardTogether = std::chrono::milliseconds(1);

}  // namespace

Ping::Ping(Loop& loop, const std::string& socket, Duration deadline, std::function<void(Status)> done)
    : loop_(loop), socket_(socket), until_(loop.now() + deadline), deadline_(deadline), done_(std::move(done)) {
  const auto connected = connect();
  if (!connected) {
    timer_.start(Duration{}, [this, connected] { finish(connected); });
    return;
  }
  const MonoTime heard = std::min(next_on_grid(loop_.now() + kHeardTogether, kHeardTogether), until_);
  timer_.start(heard - loop_.now(), [this] { hear(); });
}

void Ping::hear() {
  if (readable()) return;
  timer_.start(until_ - loop_.now(), [this] {
    finish(fail(Kind::kTimeout,
                fmt::format("no greeting within {} ms",
                            std::chrono::duration_cast<std::chrono::milliseconds>(deadline_).count()),
                socket_));
  });
  watch_ = loop_.watch(fd_.get(), EPOLLIN, [this](std::uint32_t) { (void)readable(); });
}

Ping::~Ping() {
  loop_.cancel(watch_);
}

Status Ping::connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.size() >= sizeof address.sun_path) return fail(Kind::kInvalid, "the socket's path is too long", socket_);
  std::memcpy(address.sun_path, socket_.c_str(), socket_.size() + 1);
  fd_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_) return std::unexpected(error_from_errno(errno, "cannot make a socket", socket_));
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return {};
  // The daemon's queue of connections is full.
  if (errno == EAGAIN) return fail(Kind::kTimeout, "the daemon accepts no more connections", socket_);
  return std::unexpected(error_from_errno(errno, "cannot connect to the daemon", socket_));
}

bool Ping::readable() {
  char first[64];
  const ssize_t got = ::recv(fd_.get(), first, sizeof first, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  finish(got > 0 ? Status() : fail(Kind::kUnavailable, "the daemon closed the connection without a greeting", socket_));
  return true;
}

void Ping::finish(Status status) {
  loop_.cancel(std::exchange(watch_, 0));
  timer_.stop();
  fd_.reset();
  const auto done = std::exchange(done_, {});
  if (done) done(std::move(status));
}

}  // namespace tranche::host
