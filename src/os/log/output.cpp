#include "os/log/output.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "os/clock/clock.h"

namespace tranche::log {

void OutputQueue::drain() {
  const MonoTime end = host::mono_now() + kPatienceAtExit;
  for (flush(); !waiting_.empty(); flush()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - host::mono_now()).count();
    if (left <= 0) return;
    pollfd writable{.fd = own_ ? own_.get() : fd_, .events = POLLOUT, .revents = 0};
    ::poll(&writable, 1, static_cast<int>(left));
    if ((writable.revents & POLLOUT) == 0) return;
  }
}

void OutputQueue::write(std::string_view line) {
  flush();
  if (waiting_.empty()) {
    const ssize_t sent = put(line);
    line.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    if (line.empty()) return;
    if (sent > 0) {  // always keeps the rest of a line that was partly written
      waiting_ = line;
      return;
    }
  }
  if (waiting_.size() + line.size() > kMost) {
    ++dropped_;
  } else {
    waiting_ += line;
  }
}

void OutputQueue::flush() {
  while (!waiting_.empty()) {
    const ssize_t sent = put(waiting_);
    if (sent <= 0) return;
    waiting_.erase(0, static_cast<std::size_t>(sent));
  }
}

// Determines what kind of file the descriptor is now.
void OutputQueue::look() {
  struct stat status{};
  if (::fstat(fd_, &status) != 0) {
    known_ = false;
    kind_ = Kind::kFile;
    return;
  }
  if (known_ && status.st_dev == device_ && status.st_ino == inode_) return;
  known_ = true;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  own_.reset();
  if (S_ISSOCK(status.st_mode)) {
    kind_ = Kind::kSocket;
  } else if (S_ISFIFO(status.st_mode) || (S_ISCHR(status.st_mode) && ::isatty(fd_) != 0)) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd_);
    own_ = host::Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    kind_ = own_ ? Kind::kOwn : Kind::kShared;
  } else {
    kind_ = Kind::kFile;
  }
}

// The number of bytes that the reader accepted; -1 if it accepts none now. If writing is impossible (closed, a full
// disk), the bytes count as accepted: the log must not stop the program.
ssize_t OutputQueue::put(std::string_view text) {
  look();
  ssize_t sent = -1;
  switch (kind_) {
    case Kind::kFile:
      sent = ::write(fd_, text.data(), text.size());
      break;
    case Kind::kSocket:
      sent = ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      break;
    case Kind::kOwn:
      sent = ::write(own_.get(), text.data(), text.size());
      break;
    case Kind::kShared: {
      // A pipe that polls as writable has space for PIPE_BUF bytes, unless a process that shares it was faster.
      pollfd writable{.fd = fd_, .events = POLLOUT, .revents = 0};
      if (::poll(&writable, 1, 0) == 0) return -1;
      sent = ::write(fd_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
      break;
    }
  }
  if (sent >= 0) return sent;
  return errno == EAGAIN || errno == EINTR ? -1 : static_cast<ssize_t>(text.size());
}

}  // namespace tranche::log
