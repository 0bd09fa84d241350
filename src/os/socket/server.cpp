#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_map>
#include <utility>
#include <vector>

#include "os/loop/loop.h"
#include "os/socket/connection.h"
#include "os/socket/status_socket.h"
#include "os/socket/unix_socket.h"

namespace tranche::os {
namespace {

constexpr int kAcceptedPerTurn = 16;
constexpr Duration kPauseWhenFull = std::chrono::seconds(1);

}  // namespace

StatusServer::StatusServer(Loop& loop, std::string path, Fd listening, Answer answer, StatusLimits limits, Later later)
    : loop_(loop),
      path_(std::move(path)),
      listening_(std::move(listening)),
      answer_(std::move(answer)),
      later_(std::move(later)),
      limits_(std::move(limits)) {
  remember_file();
  if (limits_.take_over) arm_audit();
}

StatusServer::~StatusServer() {
  loop_.cancel(watch_);
  for (const auto& [key, connection] : std::exchange(connections_, {})) connection->close();
  // Removes only our own file: a successor may have replaced it already.
  struct stat status{};
  if (::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
}

void StatusServer::remember_file() {
  struct stat status{};
  if (::lstat(path_.c_str(), &status) != 0) return;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

void StatusServer::arm_audit() {
  audit_.start(limits_.audit, [this] {
    listen_again();
    arm_audit();
  });
}

void StatusServer::listen_again() {
  struct stat status{};
  if (::lstat(path_.c_str(), &status) == 0) {
    if (status.st_dev == device_ && status.st_ino == inode_) return;
    // A newer instance answers there: our watchers have to connect to it.
    for (const auto& [key, connection] : std::exchange(connections_, {})) connection->close();
    return;
  }
  if (errno != ENOENT) return;
  auto listening = listen_at(path_);
  if (!listening) return;  // the next audit tries again
  loop_.cancel(std::exchange(watch_, 0));
  pause_.stop();
  listening_ = *std::move(listening);
  remember_file();
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
  const auto connection = std::make_shared<StatusConnection>(loop_, std::move(fd), answer_, later_, limits_,
                                                             [this, key] { connections_.erase(key); });
  const bool full = connections_.size() >= limits_.connections;
  connections_.emplace(key, connection);
  if (full) return connection->refuse({Kind::kUnavailable, "too many connections; close some", path_, 0});
  connection->begin();
}

void StatusServer::changed() {
  if (!notifying_.running()) notifying_.start(Duration::zero(), [this] { notify_watchers(); });
}

void StatusServer::notify_watchers() {
  std::vector<std::shared_ptr<StatusConnection>> watchers;
  for (const auto& [key, connection] : connections_) {
    if (connection->watching()) watchers.push_back(connection);
  }
  if (watchers.empty()) return;
  const std::string line = answer_line(answer_("watch"));
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
