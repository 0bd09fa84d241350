#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "os/loop/loop.h"
#include "os/socket/status_socket.h"
#include "os/socket/unix_socket.h"

namespace tranche::os {
namespace {

constexpr std::size_t kLongestAnswer = 16 << 20;
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
  auto connected = connect_to(path_, false);
  if (!connected && connected.error().code == EAGAIN)  // the server's queue is full; no event tells when it is not
    return asked->again.start(kQueueFull, [=, this] { begin(asked); });
  Error error;
  // A request is shorter than what a new connection accepts without blocking.
  if (!connected) {
    error = unreachable(std::move(connected).error());
  } else if (const auto& line = asked->line;
             ::send(connected->get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
    error = error_from_errno(errno, "cannot ask", path_);
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
  const auto scanned = asked->answer.size();
  asked->answer.append(buffer, static_cast<std::size_t>(got));
  if (const auto end = asked->answer.find('\n', scanned); end != std::string::npos)
    return finish(asked, asked->answer.substr(0, end));
  if (asked->answer.size() > kLongestAnswer)
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

}  // namespace tranche::os
