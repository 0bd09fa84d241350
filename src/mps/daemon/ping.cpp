#include "mps/daemon/ping.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/grid.h"
#include "mps/relay/relay_packet.h"

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
  auto connected = connect_to_daemon(socket_);
  // The daemon's queue of connections is full.
  if (!connected && connected.error().code == EAGAIN)
    return fail(Kind::kTimeout, "the daemon accepts no more connections", socket_);
  if (!connected) return std::unexpected(connected.error());
  fd_ = *std::move(connected);
  return {};
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
