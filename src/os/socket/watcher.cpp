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

// The loop's callbacks own it too, so that it outlives a callback that destroys the StatusWatcher.
class Follower : public std::enable_shared_from_this<Follower> {
 public:
  Follower(Loop& loop, std::string path, std::function<void(const std::string&)> on_line)
      : loop_(loop), path_(std::move(path)), parts_(parts_of(path_)), on_line_(std::move(on_line)) {}

  void try_after(Duration pause);
  void drop();

 private:
  void connect();
  void disconnected();
  void read_some();
  void deliver(const std::string& line);
  void watch_directory();
  void expect_more(Duration within);
  void look_whether_silent(MonoTime due);

  Loop& loop_;
  std::string path_;
  PathParts parts_;
  std::function<void(const std::string&)> on_line_;
  std::unique_ptr<DirWatch> appears_;
  Fd fd_;
  Loop::Id watch_ = 0;
  Timer timer_{loop_};  // until the next attempt, for the first answer, or for the next beat
  Duration pause_ = kFirstPause;
  std::string partial_;
  bool reported_gone_ = false;
  bool dropped_ = false;
};

void Follower::try_after(Duration pause) {
  timer_.start(pause, [self = shared_from_this()] { self->connect(); });
}

void Follower::drop() {
  dropped_ = true;
  const auto on_line = std::exchange(on_line_, {});
  loop_.cancel(std::exchange(watch_, 0));
  timer_.stop();
  appears_.reset();
  fd_.reset();
}

void Follower::watch_directory() {
  if (appears_) return;
  auto opened = DirWatch::open(loop_, parts_.directory, [weak = weak_from_this()](const std::string& name) {
    const auto self = weak.lock();
    if (!self || self->dropped_) return;
    if (name.empty()) {
      self->appears_.reset();  // the directory is gone: opens a new watch at the next attempt
    } else if (name == self->parts_.name && !self->fd_) {
      self->pause_ = kFirstPause;
      self->connect();
    }
  });
  // Without a watch (the directory does not exist yet), only the timer finds the socket.
  if (opened) appears_ = std::move(*opened);
}

void Follower::connect() {
  const auto self = shared_from_this();
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
  watch_ = loop_.watch(fd_.get(), EPOLLIN | EPOLLRDHUP, [self](std::uint32_t) { self->read_some(); });
  if (watch_ == 0) return disconnected();
  timer_.start(StatusWatcher::kFirstAnswer, [self] { self->disconnected(); });
}

void Follower::disconnected() {
  loop_.cancel(std::exchange(watch_, 0));
  fd_.reset();
  partial_.clear();
  try_after(pause_);
  pause_ = std::min(pause_ * 2, kLongestPause);
  if (!std::exchange(reported_gone_, true)) deliver("");
}

void Follower::read_some() {
  const auto self = shared_from_this();
  char buffer[65536];
  const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return disconnected();
  partial_.append(buffer, static_cast<std::size_t>(got));
  for (std::size_t end = 0; fd_ && (end = partial_.find('\n')) != std::string::npos;) {
    const std::string line = partial_.substr(0, end);
    partial_.erase(0, end + 1);
    if (line.empty()) continue;  // a beat; for on_line, "" has another meaning
    timer_.stop();
    pause_ = kFirstPause;
    reported_gone_ = false;
    deliver(line);
  }
  if (fd_ && partial_.size() > kLongestLine) return disconnected();
  if (fd_) expect_more(StatusWatcher::kSilence);
}

void Follower::expect_more(Duration within) {
  timer_.start(within, [self = shared_from_this(), due = loop_.now() + within] { self->look_whether_silent(due); });
}

// Input that arrived while this loop was busy and waits in the socket counts.
void Follower::look_whether_silent(MonoTime due) {
  read_some();
  if (!fd_ || timer_.running()) return;
  if (loop_.now() - due > StatusWatcher::kBusy) return expect_more(StatusWatcher::kSilence);
  disconnected();
}

void Follower::deliver(const std::string& line) {
  const auto on_line = on_line_;  // keeps it while it runs: it may destroy us
  if (on_line) on_line(line);
}

class UnixStatusWatcher final : public StatusWatcher {
 public:
  explicit UnixStatusWatcher(std::shared_ptr<Follower> follower) : follower_(std::move(follower)) {}
  ~UnixStatusWatcher() override { follower_->drop(); }
  UnixStatusWatcher(const UnixStatusWatcher&) = delete;
  UnixStatusWatcher& operator=(const UnixStatusWatcher&) = delete;

 private:
  std::shared_ptr<Follower> follower_;
};

}  // namespace

std::unique_ptr<StatusWatcher> StatusWatcher::open(Loop& loop, const std::string& path,
                                                   std::function<void(const std::string& line)> on_line) {
  auto follower = std::make_shared<Follower>(loop, path, std::move(on_line));
  follower->try_after(Duration::zero());
  return std::make_unique<UnixStatusWatcher>(std::move(follower));
}

}  // namespace tranche::os
