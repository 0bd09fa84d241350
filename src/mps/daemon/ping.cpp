#include "mps/daemon/ping.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/time.h"
#include "mps/relay/handshake.h"
#include "mps/relay/relay_packet.h"
#include "os/socket/unix_socket.h"

namespace tranche::mps {
namespace {

constexpr Duration kHeardTogether = std::chrono::milliseconds(1);

}  // namespace

Ping::Ping(os::Loop& loop, const std::string& socket, Duration deadline, Done done)
    : loop_(loop), socket_(socket), until_(loop.now() + deadline), deadline_(deadline), done_(std::move(done)) {
  auto connected = os::connect_to(socket_, SOCK_SEQPACKET);
  if (!connected) {
    Error error = std::move(connected).error();
    if (error.code != 0) error.what = "cannot connect to the MPS daemon";
    if (error.code == EAGAIN)  // its queue of connections is full
      error = {Kind::kTimeout, "the daemon accepts no more connections", socket_, 0};
    timer_.start(Duration{}, [this, error] { finish(std::unexpected(error)); });
    return;
  }
  fd_ = *std::move(connected);
  const MonoTime heard = std::min(next_on_grid(loop_.now() + kHeardTogether, kHeardTogether), until_);
  timer_.start(heard - loop_.now(), [this] { hear(); });
}

void Ping::hear() {
  if (readable()) return;
  timer_.start(until_ - loop_.now(), [this] {
    finish(fail(Kind::kTimeout, fmt::format("no greeting within {} ms", milliseconds_of(deadline_)), socket_));
  });
  watch_ = loop_.watch(fd_.get(), EPOLLIN, [this](std::uint32_t) { (void)readable(); });
}

Ping::~Ping() {
  loop_.cancel(watch_);
}

bool Ping::readable() {
  RelayMessage first;
  const auto arrival = receive_packet(fd_.get(), first);
  if (arrival == Arrival::kNothing) return false;
  if (arrival == Arrival::kEnd) {
    finish(fail(Kind::kUnavailable, "the daemon closed the connection without a greeting", socket_));
  } else {
    finish(first.bytes == kRelayHello && first.descriptors.empty());
  }
  return true;
}

void Ping::finish(const Result<bool>& result) {
  loop_.cancel(std::exchange(watch_, 0));
  timer_.stop();
  fd_.reset();
  const auto done = std::exchange(done_, {});
  if (done) done(result);
}

}  // namespace tranche::mps
