#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>

#include "os/clock/clock.h"
#include "os/socket/status_socket.h"
#include "os/socket/unix_socket.h"

namespace tranche::os {
namespace {

constexpr std::size_t kLongestDocument = 16 << 20;

// Gives every blocking call the remaining time of the whole deadline.
class Patience {
 public:
  explicit Patience(Duration whole) : end_(mono_now() + whole) {}
  long left_us() const {
    return static_cast<long>(std::chrono::ceil<std::chrono::microseconds>(end_ - mono_now()).count());
  }

 private:
  MonoTime end_;
};

std::unexpected<Error> too_late(const std::string& path) {
  return fail(Kind::kTimeout, "no answer in time: the program is there but does not answer", path);
}

std::unexpected<Error> unreachable(Error error) {
  if (error.code == EAGAIN) return too_late(error.where);
  if (error.code == ENOENT || error.code == ECONNREFUSED) {
    error.kind = Kind::kUnavailable;
    struct stat status{};
    const bool is_there = ::stat(error.where.c_str(), &status) == 0;
    error.what = !is_there                   ? "no such socket; is the program running?"
                 : !S_ISSOCK(status.st_mode) ? "not a socket"
                                             : "connection refused: no program listens on this socket; is it running?";
  }
  return std::unexpected(std::move(error));
}

Status send_all(int fd, std::string_view text, const Patience& patience, const std::string& path) {
  while (!text.empty()) {
    if (patience.left_us() <= 0) return too_late(path);
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return too_late(path);
    if (sent < 0) return std::unexpected(error_from_errno(errno, "cannot ask", path));
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::string> receive_line(int fd, const Patience& patience, const std::string& path) {
  std::string answer;
  char buffer[16384];
  for (;;) {
    const long left = patience.left_us();
    if (left <= 0) return too_late(path);
    const timeval limit{.tv_sec = left / 1'000'000, .tv_usec = left % 1'000'000};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return std::unexpected(error_from_errno(errno, "cannot read an answer", path));
    if (got == 0) return fail(Kind::kUnavailable, "the connection was closed before the answer was complete", path);
    const auto scanned = answer.size();
    answer.append(buffer, static_cast<std::size_t>(got));
    if (const auto end = answer.find('\n', scanned); end != std::string::npos) return answer.substr(0, end);
    if (answer.size() > kLongestDocument) return fail(Kind::kInvalid, "the answer is longer than it can be", path);
  }
}

}  // namespace

Result<std::string> ask(const std::string& path, const std::string& request, Duration deadline) {
  if (request.empty() || request.find('\n') != std::string::npos) {
    return fail(Kind::kInvalid, "a request is one line", path);
  }
  const Patience patience(deadline);
  if (patience.left_us() <= 0) return too_late(path);
  const auto fd = connect_to(path, true, patience.left_us());
  if (!fd) return unreachable(fd.error());
  TRY_STATUS(send_all(fd->get(), request + "\n", patience, path));
  return receive_line(fd->get(), patience, path);
}

}  // namespace tranche::os
