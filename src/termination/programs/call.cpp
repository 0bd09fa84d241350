#include "termination/programs/call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

namespace tranche::drain {
namespace {

constexpr std::string_view kRequest = "drain";

// Becomes readable when the time is over: the only clock of these programs.
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
    const auto there = ::recv(fd, into.data() + size, into.size() - size, MSG_DONTWAIT | MSG_PEEK);
    if (there < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (there < 0) return failed("cannot read the answer", errno);
    if (there == 0) return failed("the connection was closed before an answer", ECONNRESET);
    // Bytes after the line are left for the next call.
    const void* end = ::memchr(into.data() + size, '\n', static_cast<std::size_t>(there));
    const auto length = end == nullptr ? static_cast<std::size_t>(there)
                                       : static_cast<std::size_t>(static_cast<const char*>(end) - into.data()) - size;
    const auto taken = length + (end == nullptr ? 0 : 1);
    if (::recv(fd, into.data() + size, taken, MSG_DONTWAIT) != static_cast<ssize_t>(taken))
      return failed("cannot read the answer", errno);
    size += length;
    if (end != nullptr) return {{into.data(), size}, nullptr, 0};
  }
  return failed("the answer is too long", EMSGSIZE);
}

}  // namespace

Text& Text::operator<<(std::string_view piece) {
  if (size_ + piece.size() >= sizeof bytes_) {
    fits_ = false;
    piece.remove_suffix(piece.size() - (sizeof bytes_ - 1 - size_));
  }
  if (!piece.empty()) ::memcpy(bytes_ + size_, piece.data(), piece.size());
  size_ += piece.size();
  bytes_[size_] = '\0';
  return *this;
}

Text& Text::operator<<(int number) {
  char digits[12];
  int at = sizeof digits;
  unsigned rest = number < 0 ? 0U - static_cast<unsigned>(number) : static_cast<unsigned>(number);
  do digits[--at] = static_cast<char>('0' + rest % 10);
  while ((rest /= 10) != 0);
  if (number < 0) digits[--at] = '-';
  return *this << std::string_view(digits + at, sizeof digits - static_cast<std::size_t>(at));
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

namespace {

bool is_roots(const struct stat& info) {
  return info.st_uid == 0 && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

bool is_roots_alone(const char* path) {
  Text folder;
  const auto slash = std::string_view(path).rfind('/');
  folder << (slash == std::string_view::npos ? "." : std::string_view(path, slash == 0 ? 1 : slash));
  struct stat info = {};
  if (::lstat(path, &info) != 0) return true;
  return folder.fits() && S_ISREG(info.st_mode) && is_roots(info) && ::stat(folder.c_str(), &info) == 0 &&
         is_roots(info);
}

void log_line(const char* socket_path, const Text& line) {
  constexpr const char* kDaemonWarning = "<28>";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string_view path = socket_path;
  if (path.size() >= sizeof address.sun_path) return;
  ::memcpy(address.sun_path, path.data(), path.size());
  Text whole;
  whole << kDaemonWarning << line.view();
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  (void)::sendto(fd, whole.view().data(), whole.view().size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::close(fd);
}

std::string_view read_short(const char* path, std::span<char> into) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return {};
  struct stat info = {};
  std::size_t size = 0;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && is_roots(info)) {
    ssize_t got = 0;
    while (size < into.size() && (got = ::read(fd, into.data() + size, into.size() - size)) > 0)
      size += static_cast<std::size_t>(got);
  }
  ::close(fd);
  return {into.data(), size};
}

// The first of two lines has arrived, and perhaps the second.
Called read_second_line(int fd, int longest_ms, std::string_view first, std::span<char> into) {
  if (first.find("\"waiting\"") == std::string_view::npos || longest_ms == 0) return {first, nullptr, 0};
  const int deadline = deadline_in(longest_ms);
  if (deadline < 0) return failed("cannot make a timer", errno);
  const auto called = read_line(fd, deadline, into);
  ::close(deadline);
  return called;
}

Called ask_for_drain(std::string_view socket_path, int timeout_ms, std::span<char> into, int signal, int longest_ms) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return failed("the socket's path is too long", ENAMETOOLONG);
  ::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  Text request;
  request << kRequest;
  if (signal != 0) request << " " << signal;
  request << "\n";
  const int deadline = deadline_in(timeout_ms);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (deadline < 0 || fd < 0) return failed("cannot make a socket", errno);
  limit_connect(fd, timeout_ms);
  Called called;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    called = failed("no program listens at the endpoint's drain socket", errno);
  } else if (::send(fd, request.view().data(), request.view().size(), MSG_NOSIGNAL) !=
             static_cast<ssize_t>(request.view().size())) {
    called = failed("cannot ask", errno);
  } else {
    called = read_line(fd, deadline, into);
    if (called.problem == nullptr) called = read_second_line(fd, longest_ms, called.line, into);
  }
  ::close(fd);
  ::close(deadline);
  return called;
}

}  // namespace tranche::drain
