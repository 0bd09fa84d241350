#include "termination/programs/call.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

namespace tranche::drain {
namespace {

constexpr std::string_view kRequest = "drain\n";

// Becomes readable when the time is over: the only clock of this program.
int deadline_in(int timeout_ms) {
  const int fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  itimerspec when = {};
  when.it_value.tv_sec = timeout_ms / 1000;
  when.it_value.tv_nsec = (timeout_ms % 1000) * 1'000'000L;
  if (fd >= 0) ::timerfd_settime(fd, 0, &when, nullptr);
  return fd;
}

// With a full backlog connect() blocks, so it gets a limit of its own; the deadline has passed by then.
void limit_connect(int fd, int timeout_ms) {
  const timeval limit{timeout_ms / 1000, (timeout_ms % 1000) * 1000L};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Called failed(const char* problem, int error) {
  return {{}, problem, error};
}

Called read_line(int fd, int deadline, std::span<char> into) {
  std::size_t size = 0;
  while (size < into.size()) {
    pollfd wait[2] = {{fd, POLLIN, 0}, {deadline, POLLIN, 0}};
    if (::poll(wait, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return failed("cannot wait for the answer", errno);
    }
    if (wait[0].revents == 0) return failed("no answer in time", ETIMEDOUT);
    const auto got = ::recv(fd, into.data() + size, into.size() - size, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return failed("cannot read the answer", errno);
    if (got == 0) return failed("the connection was closed before an answer", ECONNRESET);
    const void* end = ::memchr(into.data() + size, '\n', static_cast<std::size_t>(got));
    if (end != nullptr) {
      const auto length = static_cast<const char*>(end) - into.data();
      return {{into.data(), static_cast<std::size_t>(length)}, nullptr, 0};
    }
    size += static_cast<std::size_t>(got);
  }
  return failed("the answer is too long", EMSGSIZE);
}

}  // namespace

Text& Text::operator<<(std::string_view piece) {
  if (size_ + piece.size() >= sizeof bytes_) piece = {piece.data(), sizeof bytes_ - 1 - size_};
  if (!piece.empty()) ::memcpy(bytes_ + size_, piece.data(), piece.size());
  size_ += piece.size();
  return *this;
}

void say(int fd, const Text& line) {
  Text whole = line;
  whole << "\n";
  std::string_view rest = whole.view();
  while (!rest.empty()) {
    const auto put = ::write(fd, rest.data(), rest.size());
    if (put <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
}

Called ask_for_drain(std::string_view socket_path, int timeout_ms, std::span<char> into) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return failed("the socket's path is too long", ENAMETOOLONG);
  ::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  const int deadline = deadline_in(timeout_ms);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (deadline < 0 || fd < 0) return failed("cannot make a socket", errno);
  limit_connect(fd, timeout_ms);
  Called called;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    called = failed("no program listens at the endpoint's drain socket", errno);
  } else if (::send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kRequest.size())) {
    called = failed("cannot ask", errno);
  } else {
    called = read_line(fd, deadline, into);
  }
  ::close(fd);
  ::close(deadline);
  return called;
}

}  // namespace tranche::drain
