#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <utility>

#include "os/loop/loop.h"
#include "os/socket/status_socket.h"
#include "os/socket/unix_socket.h"

namespace tranche::os {
namespace {

constexpr std::size_t kLongestAnswer = 1 << 20;

struct Asked {
  explicit Asked(Loop& loop) : timer(loop) {}
  std::uint64_t id = 0;
  std::string line;
  std::function<void(const Result<std::string>&)> done;
  Timer timer;
};

// The loop's callbacks own it too, so that it outlives a callback that destroys the StatusClient.
class Asker : public std::enable_shared_from_this<Asker> {
 public:
  Asker(Loop& loop, std::string path) : loop_(loop), path_(std::move(path)) {}

  void add(std::string line, Duration deadline, std::function<void(const Result<std::string>&)> done);
  void drop();

 private:
  void advance();
  bool connect();
  void disconnect();
  void read_some();
  void finish(std::uint64_t id, const Result<std::string>& result);
  void fail_soon(std::uint64_t id, const Error& error);

  Loop& loop_;
  std::string path_;
  std::list<Asked> waiting_;  // the first one is in progress while asking_
  std::uint64_t next_id_ = 1;
  bool asking_ = false;
  Fd fd_;
  Loop::Id watch_ = 0;
  Timer failing_{loop_};
  std::string partial_;
};

void Asker::add(std::string line, Duration deadline, std::function<void(const Result<std::string>&)> done) {
  const auto id = next_id_++;
  const bool one_line = !line.empty() && line.find('\n') == std::string::npos;
  Asked& asked = waiting_.emplace_back(loop_);
  asked.id = id;
  asked.line = std::move(line) + "\n";
  asked.done = std::move(done);
  asked.timer.start(one_line ? deadline : Duration::zero(), [self = shared_from_this(), id, one_line] {
    self->finish(
        id, one_line ? fail(Kind::kTimeout, "no answer in time: the program is there but does not answer", self->path_)
                     : fail(Kind::kInvalid, "a request is one line", self->path_));
  });
  if (one_line) advance();
}

void Asker::drop() {
  waiting_.clear();
  failing_.stop();
  disconnect();
}

void Asker::disconnect() {
  loop_.cancel(std::exchange(watch_, 0));
  fd_.reset();
  partial_.clear();
  asking_ = false;
}

bool Asker::connect() {
  if (fd_) return true;
  auto connected = connect_to(path_, false);
  if (!connected) return false;
  fd_ = *std::move(connected);
  watch_ =
      loop_.watch(fd_.get(), EPOLLIN | EPOLLRDHUP, [self = shared_from_this()](std::uint32_t) { self->read_some(); });
  if (watch_ == 0) fd_.reset();
  return watch_ != 0;
}

void Asker::advance() {
  if (asking_ || failing_.running() || waiting_.empty()) return;
  // A request is shorter than what a connection accepts without blocking, and only one is in progress.
  const auto sent = [&] {
    const auto& line = waiting_.front().line;
    return ::send(fd_.get(), line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
  };
  const bool had = static_cast<bool>(fd_);
  asking_ = connect() && sent();
  if (!asking_ && had) {  // the server had closed it earlier: not an answer to this request
    disconnect();
    asking_ = connect() && sent();
  }
  if (asking_) return;
  disconnect();
  fail_soon(waiting_.front().id, {Kind::kUnavailable, "no program answers there; check that it runs", path_, 0});
}

// In a callback of its own, never inside request().
void Asker::fail_soon(std::uint64_t id, const Error& error) {
  failing_.start(Duration::zero(),
                 [self = shared_from_this(), id, error] { self->finish(id, std::unexpected(error)); });
}

void Asker::read_some() {
  const auto self = shared_from_this();
  char buffer[16384];
  const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0 && asking_) {
    partial_.append(buffer, static_cast<std::size_t>(got));
    const auto end = partial_.find('\n');
    if (end == std::string::npos && partial_.size() <= kLongestAnswer) return;
    if (end != std::string::npos) {
      const std::string line = partial_.substr(0, end);
      partial_.clear();  // one request, one line
      asking_ = false;
      return finish(waiting_.front().id, line);
    }
  }
  const bool asked = asking_;
  disconnect();
  if (!asked) return;  // idle for long: the server closed it
  finish(waiting_.front().id,
         fail(Kind::kUnavailable, "the connection was closed before the answer was complete", path_));
}

void Asker::finish(std::uint64_t id, const Result<std::string>& result) {
  const auto self = shared_from_this();
  const auto found = std::ranges::find(waiting_, id, &Asked::id);
  if (found == waiting_.end()) return;
  const bool first = found == waiting_.begin();
  const auto done = std::move(found->done);
  waiting_.erase(found);
  if (first && asking_) disconnect();  // its answer would be mistaken for the next one's
  done(result);
  advance();
}

class UnixStatusClient final : public StatusClient {
 public:
  explicit UnixStatusClient(std::shared_ptr<Asker> asker) : asker_(std::move(asker)) {}
  ~UnixStatusClient() override { asker_->drop(); }
  UnixStatusClient(const UnixStatusClient&) = delete;
  UnixStatusClient& operator=(const UnixStatusClient&) = delete;

  void request(std::string line, Duration deadline, std::function<void(const Result<std::string>&)> done) override {
    asker_->add(std::move(line), deadline, std::move(done));
  }

 private:
  std::shared_ptr<Asker> asker_;
};

}  // namespace

std::unique_ptr<StatusClient> StatusClient::open(Loop& loop, const std::string& path) {
  return std::make_unique<UnixStatusClient>(std::make_shared<Asker>(loop, path));
}

}  // namespace tranche::os
