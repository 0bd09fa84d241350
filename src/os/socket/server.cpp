#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/text.h"
#include "base/time.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"

namespace tranche::os {
namespace {

constexpr std::uint32_t kReadable = EPOLLIN | EPOLLRDHUP;
constexpr const char* kWatch = "watch";
constexpr const char* kBeat = "\n";

constexpr int kAcceptedPerTurn = 16;
constexpr Duration kPauseWhenFull = std::chrono::seconds(1);

// The JSON, or {"error":"…"}: without line ends inside, with one at its end.
std::string answer_line(const Result<std::string>& json) {
  std::string line = json ? *json : json_text(nlohmann::json{{"error", to_string(json.error())}});
  // JSON text has line ends only between its tokens, where a blank is equivalent.
  std::ranges::replace(line, '\n', ' ');
  return line + '\n';
}

}  // namespace

Result<std::string> read_request(std::string_view line) {
  if (line.size() > kLongestRequest)
    return fail(Kind::kInvalid, "a request is one line of at most " + std::to_string(kLongestRequest) + " bytes");
  const auto request = trimmed(line);
  if (!std::ranges::all_of(request, [](char c) { return c >= 0x20 && c < 0x7f; }))
    return fail(Kind::kInvalid, "a request is printable ASCII, but this is " + in_quotes(request));
  return std::string(request);
}

// One client of a StatusServer. Requests are answered in order, one at a time: while an answer is pending or not read
// by the client, the connection reads no more requests. Holds at most one answer and one piece of input.
class StatusConnection : public std::enable_shared_from_this<StatusConnection> {
 public:
  StatusConnection(StatusServer& server, std::uint64_t key, Fd fd)
      : server_(server), loop_(server.loop_), key_(key), fd_(std::move(fd)) {}

  void begin() { want(kReadable); }

  // For a watcher; ignored by others. `newest` is a whole line.
  void changed(const std::string& newest) {
    if (!fd_ || !watching_) return;
    if (out_.empty()) {
      out_ = newest;
      stale_ = false;
    } else {
      stale_ = true;
    }
    advance();
  }

  // Idempotent.
  void close() {
    if (!fd_) return;
    const auto self = shared_from_this();
    loop_.cancel(std::exchange(watch_, 0));
    beat_timer_.stop();
    fd_.reset();
    server_.connections_.erase(key_);
  }

  bool watching() const { return watching_; }

 private:
  void on_event(std::uint32_t events) {
    const auto self = shared_from_this();
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) return close();
    if ((events & kReadable) != 0) read_some();
    if (fd_) advance();
  }

  void read_some() {
    char buffer[4096];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return close();
    if (got == 0) {
      half_closed_ = true;
      return;
    }
    for (auto& line : lines_.take({buffer, static_cast<std::size_t>(got)})) requests_.push_back(std::move(line));
  }

  // Does everything that does not have to wait for the client.
  void advance() {
    const auto self = shared_from_this();
    answering_ = true;
    for (;;) {
      if (!flush()) return;
      if (!out_.empty() || last_answer_ || waiting_) break;
      if (stale_) {
        stale_ = false;
        out_ = answer_line(server_.answer_(kWatch));
        continue;
      }
      if (requests_.empty()) break;
      const auto request = read_request(requests_.front());
      requests_.pop_front();
      if (!request || !request->empty()) answer(request);
    }
    answering_ = false;
    const bool done = half_closed_ && !watching_ && !waiting_;
    if (out_.empty() && (last_answer_ || done)) return close();
    if (!out_.empty()) return want(EPOLLOUT);
    // A watcher that half-closed is served until it hangs up, which the kernel reports without a request. A connection
    // that waits for an answer is not read either: its input stays in the socket.
    want(half_closed_ || waiting_ ? 0 : kReadable);
  }

  // False: closed.
  bool flush() {
    while (out_at_ < out_.size()) {
      const ssize_t sent = ::send(fd_.get(), out_.data() + out_at_, out_.size() - out_at_, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return true;
      if (sent < 0) {
        close();
        return false;
      }
      out_at_ += static_cast<std::size_t>(sent);
    }
    std::string().swap(out_);  // clear() would keep the memory of the longest answer as long as the client stays
    out_at_ = 0;
    return true;
  }

  void answer(const Result<std::string>& request) {
    if (!request) {
      out_ = answer_line(request);
      last_answer_ = true;
      return;
    }
    if (server_.later_ && (request->starts_with('{') || *request == server_.limits_.later))
      return answer_later(*request);
    const auto reply = server_.answer_(*request);
    out_ = answer_line(reply);
    if (*request == kWatch && reply && !std::exchange(watching_, true)) beat_later();
  }

  void answer_later(const std::string& request) {
    waiting_ = true;
    server_.later_(request, [weak = weak_from_this(), number = ++asked_](const Result<std::string>& json) {
      if (const auto self = weak.lock()) self->answered(number, json);
    });
  }

  // May run inside StatusServer::later_, which advance() called: then that call continues.
  void answered(std::uint64_t number, const Result<std::string>& json) {
    if (!fd_ || !waiting_ || number != asked_) return;
    waiting_ = false;
    out_ = answer_line(json);
    if (!answering_) advance();
  }

  void want(std::uint32_t events) {
    if (watch_ != 0 && events == wanted_) return;
    loop_.cancel(std::exchange(watch_, 0));
    wanted_ = events;
    watch_ = loop_.watch(fd_.get(), events, [self = shared_from_this()](std::uint32_t seen) { self->on_event(seen); });
    if (watch_ == 0) close();
  }

  // A watcher that does not read needs no beat: its queued lines are sent first.
  void beat_later() {
    beat_timer_.start(next_on_grid(loop_.now(), server_.limits_.beat) - loop_.now(), [self = shared_from_this()] {
      self->beat_later();
      if (!self->out_.empty()) return;
      self->out_ = kBeat;
      self->advance();
    });
  }

  StatusServer& server_;
  Loop& loop_;
  std::uint64_t key_;
  Fd fd_;
  Loop::Id watch_ = 0;
  Timer beat_timer_{loop_};
  std::uint32_t wanted_ = 0;
  LineReader lines_{kLongestRequest};
  std::deque<std::string> requests_;
  std::string out_;
  std::size_t out_at_ = 0;
  bool watching_ = false;
  bool stale_ = false;        // a watcher that has not been sent the newest state
  bool half_closed_ = false;  // the client sends no more
  bool last_answer_ = false;  // close once it is sent
  std::uint64_t asked_ = 0;   // number of requests answered later
  bool waiting_ = false;      // for the last of these answers
  bool answering_ = false;    // inside advance()
};

StatusServer::StatusServer(Loop& loop, std::string path, Fd listening, Answer answer, StatusLimits limits, Later later)
    : loop_(loop),
      path_(std::move(path)),
      listening_(std::move(listening)),
      answer_(std::move(answer)),
      later_(std::move(later)),
      limits_(std::move(limits)),
      file_(look_at_socket(path_)) {
  if (limits_.take_over) arm_audit();
}

StatusServer::~StatusServer() {
  loop_.cancel(watch_);
  for (const auto& [key, connection] : std::exchange(connections_, {})) connection->close();
  // Removes only our own file: a successor may have replaced it already.
  if (const auto there = look_at_socket(path_); there && file_ && there->same_file(*file_)) ::unlink(path_.c_str());
}

void StatusServer::arm_audit() {
  audit_.start(limits_.audit, [this] {
    listen_again();
    arm_audit();
  });
}

void StatusServer::listen_again() {
  if (const auto there = look_at_socket(path_)) {
    if (file_ && there->same_file(*file_)) return;
    // A newer instance answers there: our watchers have to connect to it.
    for (const auto& [key, connection] : std::exchange(connections_, {})) connection->close();
    return;
  }
  auto listening = listen_at(path_);
  if (!listening) return;  // the next audit tries again
  loop_.cancel(std::exchange(watch_, 0));
  pause_.stop();
  listening_ = *std::move(listening);
  file_ = look_at_socket(path_);
  begin();
}

bool StatusServer::begin() {
  watch_ = loop_.watch(listening_.get(), EPOLLIN, [this](std::uint32_t) { accept_some(); });
  return watch_ != 0;
}

void StatusServer::accept_some() {
  for (int i = 0; i < kAcceptedPerTurn; ++i) {
    Fd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      add(std::move(fd));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return;
    // Out of descriptors or memory: the socket stays readable, so pause the watch.
    loop_.cancel(std::exchange(watch_, 0));
    pause_.start(kPauseWhenFull, [this] { begin(); });
    return;
  }
}

void StatusServer::add(Fd fd) {
  const auto key = next_key_++;
  const auto connection = std::make_shared<StatusConnection>(*this, key, std::move(fd));
  connections_.emplace(key, connection);
  connection->begin();
}

void StatusServer::changed() {
  if (!notifying_.running()) notifying_.start(Duration::zero(), [this] { notify_watchers(answer_); });
}

void StatusServer::changed(const std::string& json) {
  notify_watchers([&](const std::string&) { return Result<std::string>(json); });
}

void StatusServer::notify_watchers(const Answer& answer) {
  std::vector<std::shared_ptr<StatusConnection>> watchers;
  for (const auto& [key, connection] : connections_) {
    if (connection->watching()) watchers.push_back(connection);
  }
  if (watchers.empty()) return;
  const std::string line = answer_line(answer("watch"));
  for (const auto& watcher : watchers) watcher->changed(line);
}

Result<std::unique_ptr<StatusServer>> StatusServer::open(Loop& loop, const std::string& path, Answer answer,
                                                         StatusLimits limits, Later later) {
  TRY(Fd listening, limits.take_over ? listen_in_place_of(path) : listen_at(path));
  std::unique_ptr<StatusServer> server(
      new StatusServer(loop, path, std::move(listening), std::move(answer), std::move(limits), std::move(later)));
  if (!server->begin()) return fail(Kind::kUnavailable, "the event loop refuses to watch a socket", path);
  return server;
}

}  // namespace tranche::os
