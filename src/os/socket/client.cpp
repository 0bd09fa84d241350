#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "os/files/files.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"

namespace tranche::os {
namespace {

constexpr Duration kQueueFull = std::chrono::milliseconds(20);

Error unreachable(Error error) {
  if (error.code == ENOENT || error.code == ECONNREFUSED) {
    error.kind = Kind::kUnavailable;
    struct stat status{};
    const bool is_there = ::stat(error.where.c_str(), &status) == 0;
    error.what = !is_there                   ? "no such socket; is the program running?"
                 : !S_ISSOCK(status.st_mode) ? "not a socket"
                                             : "connection refused: no program listens on this socket; is it running?";
  }
  return error;
}

// The line is shorter than what a new connection accepts without blocking.
Result<Fd> connect_and_send(const std::string& path, std::string_view line) {
  TRY(Fd connected, connect_to(path));
  if (::send(connected.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    return fail_errno("cannot ask", path);
  return connected;
}

constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::seconds(1);
constexpr Duration kWithoutSocket = std::chrono::seconds(10);
constexpr std::string_view kRequest = "watch\n";

}  // namespace

StatusClient::~StatusClient() {
  for (const Asked& asked : asked_) loop_.cancel(asked.watch);
}

void StatusClient::request(std::string line, Duration deadline, Done done) {
  add(std::move(line), deadline, std::move(done))->in_turn = true;
  begin_next();
}

void StatusClient::request_at_once(std::string line, Duration deadline, Done done) {
  const auto asked = add(std::move(line), deadline, std::move(done));
  if (!asked->begun) begin(asked);
}

StatusClient::Place StatusClient::add(std::string line, Duration deadline, Done done) {
  const auto asked = asked_.emplace(asked_.end(), loop_);
  asked->begun = line.empty() || line.contains('\n');
  asked->line = std::move(line) + "\n";
  asked->done = std::move(done);
  asked->deadline.start(asked->begun ? Duration::zero() : deadline, [this, asked, wrong = asked->begun] {
    finish(asked, wrong ? fail(Kind::kInvalid, "a request is one line", path_)
                        : fail(Kind::kTimeout, "no answer in time: the program is there but does not answer", path_));
  });
  return asked;
}

void StatusClient::begin_next() {
  const auto next = std::ranges::find(asked_, true, &Asked::in_turn);
  if (next != asked_.end() && !next->begun) begin(next);
}

// Fails in a callback of its own.
void StatusClient::begin(Place asked) {
  asked->begun = true;
  auto connected = connect_and_send(path_, asked->line);
  if (!connected && connected.error().code == EAGAIN)  // the server's queue is full; no event reports its end
    return asked->again.start(kQueueFull, [=, this] { begin(asked); });
  Error error;
  if (!connected) {
    error = unreachable(std::move(connected).error());
  } else {
    asked->fd = *std::move(connected);
    asked->watch = loop_.watch(asked->fd.get(), EPOLLIN | EPOLLRDHUP, [=, this](std::uint32_t) { read_some(asked); });
    if (asked->watch != 0) return;
    error = {Kind::kUnavailable, "the event loop refuses to watch a socket", path_, 0};
  }
  asked->deadline.start(Duration::zero(), [=, this] { finish(asked, std::unexpected(error)); });
}

void StatusClient::read_some(Place asked) {
  char buffer[16384];
  const ssize_t got = ::recv(asked->fd.get(), buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0)
    return finish(asked, fail(Kind::kUnavailable, "the connection was closed before the answer was complete", path_));
  const auto lines = asked->lines.take({buffer, static_cast<std::size_t>(got)});
  if (lines.empty()) return;
  if (lines[0].size() <= kLongestAnswer) return finish(asked, lines[0]);
  finish(asked, fail(Kind::kInvalid, "the answer is longer than it can be", path_));
}

void StatusClient::finish(Place asked, const Result<std::string>& result) {
  const auto done = std::move(asked->done);
  loop_.cancel(asked->watch);
  asked_.erase(asked);
  begin_next();
  done(result);  // last: it may destroy us
}

Result<std::string> ask(const std::string& path, const std::string& request, Duration deadline) {
  TRY(const auto loop, Loop::open());
  StatusClient client(*loop, path);
  Result<std::string> answer;
  client.request(request, deadline, [&](const Result<std::string>& line) {
    answer = line;
    loop->stop();
  });
  loop->run();
  return answer;
}

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
  auto connected = connect_and_send(path_, kRequest);
  if (!connected) {
    // The directory watch reports when the socket appears; the slow retry is for a watch that reports nothing.
    if (connected.error().code == ENOENT && appears_) pause_ = kWithoutSocket;
    return disconnected();
  }
  fd_ = std::move(*connected);
  watch_ = loop_.watch(fd_.get(), EPOLLIN | EPOLLRDHUP, [this](std::uint32_t) { read_some(); });
  if (watch_ == 0) return disconnected();
  timer_.start(kFirstAnswer, [this] { disconnected(); });
}

void StatusWatcher::disconnected() {
  loop_.cancel(std::exchange(watch_, 0));
  fd_.reset();
  lines_ = LineReader(kLongestAnswer);
  timer_.start(pause_, [this] { connect(); });
  pause_ = std::min(pause_ * 2, kLongestPause);
  if (!std::exchange(reported_gone_, true)) deliver("");
}

void StatusWatcher::read_some() {
  char buffer[65536];
  const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return disconnected();
  const std::weak_ptr alive = alive_;
  for (const auto& line : lines_.take({buffer, static_cast<std::size_t>(got)})) {
    if (line.size() > kLongestAnswer) return disconnected();
    if (line.empty()) continue;  // a beat; for on_line, "" has another meaning
    pause_ = kFirstPause;
    reported_gone_ = false;
    deliver(line);
    if (alive.expired()) return;
  }
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
