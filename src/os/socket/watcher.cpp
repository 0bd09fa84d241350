#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "os/files/files.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"
#include "os/socket/unix_socket.h"

namespace tranche::os {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::seconds(1);
constexpr Duration kWithoutSocket = std::chrono::seconds(10);
constexpr std::size_t kLongestLine = 16 << 20;
constexpr std::string_view kRequest = "watch\n";

}  // namespace

void StatusWatcher::watch_directory() {
  if (appears_) return;
  auto opened = DirWatch::open(loop_, parts_.directory, [this](const std::string& name) {
    if (name.empty()) {
      appears_.reset();  // the directory is gone: opens a new watch at the next attempt
    } else if (name == parts_.name && !fd_) {
      pause_ = kFirstPause;
      connect();
    }
  });
  // Without a watch (the directory does not exist yet), only the timer finds the socket.
  if (opened) appears_ = std::move(*opened);
}

void StatusWatcher::connect() {
  watch_directory();
  auto connected = connect_to(path_, false);
  if (!connected) {
    // The directory watch reports when the socket appears; the slow retry is for a watch that reports nothing.
    if (connected.error().code == ENOENT && appears_) pause_ = kWithoutSocket;
    return disconnected();
  }
  fd_ = std::move(*connected);
  // A new connection has space for six bytes.
  if (::send(fd_.get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kRequest.size())) {
    return disconnected();
  }
  watch_ = loop_.watch(fd_.get(), EPOLLIN | EPOLLRDHUP, [this](std::uint32_t) { read_some(); });
  if (watch_ == 0) return disconnected();
  timer_.start(kFirstAnswer, [this] { disconnected(); });
}

void StatusWatcher::disconnected() {
  loop_.cancel(std::exchange(watch_, 0));
  fd_.reset();
  partial_.clear();
  timer_.start(pause_, [this] { connect(); });
  pause_ = std::min(pause_ * 2, kLongestPause);
  if (!std::exchange(reported_gone_, true)) deliver("");
}

void StatusWatcher::read_some() {
  char buffer[65536];
  const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return disconnected();
  partial_.append(buffer, static_cast<std::size_t>(got));
  const std::weak_ptr alive = alive_;
  for (std::size_t end = 0; (end = partial_.find('\n')) != std::string::npos;) {
    const std::string line = partial_.substr(0, end);
    partial_.erase(0, end + 1);
    if (line.empty()) continue;  // a beat; for on_line, "" has another meaning
    pause_ = kFirstPause;
    reported_gone_ = false;
    deliver(line);
    if (alive.expired()) return;
  }
  if (partial_.size() > kLongestLine) return disconnected();
  expect_more();
}

// Input that arrived while this loop was busy and waits in the socket counts.
void StatusWatcher::expect_more() {
  timer_.start(kSilence, [this, due = loop_.now() + kSilence] {
    const std::weak_ptr alive = alive_;
    read_some();
    if (alive.expired() || !fd_ || timer_.running()) return;
    if (loop_.now() - due > kBusy) return expect_more();
    disconnected();
  });
}

void StatusWatcher::deliver(const std::string& line) {
  const auto on_line = on_line_;  // keeps it while it runs: it may destroy us
  on_line(line);
}

StatusWatcher::StatusWatcher(Loop& loop, const std::string& path, std::function<void(const std::string& line)> on_line)
    : loop_(loop), path_(path), parts_(parts_of(path)), on_line_(std::move(on_line)), pause_(kFirstPause) {
  timer_.start(Duration::zero(), [this] { connect(); });
}

}  // namespace tranche::os
