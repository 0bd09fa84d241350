#include "os/files/watch.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace tranche::os {
namespace {

constexpr std::uint32_t kEvents =
    IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

void add(std::vector<std::string>& names, std::string name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
}

}  // namespace

DirWatch::~DirWatch() {
  loop_.cancel(id_);
}

void DirWatch::read_events() {
  alignas(inotify_event) char buffer[8192];
  const ssize_t got = ::read(fd_.get(), buffer, sizeof buffer);
  if (got <= 0) return;
  // A write raises several events; each name is reported once per round.
  std::vector<std::string> names;
  const std::size_t end = static_cast<std::size_t>(got);
  for (std::size_t at = 0; at + sizeof(inotify_event) <= end;) {
    inotify_event event{};
    std::memcpy(&event, buffer + at, sizeof event);
    const char* name = buffer + at + sizeof event;
    at += sizeof event + event.len;
    if (at > end) break;
    if ((event.mask & (IN_Q_OVERFLOW | IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) != 0) {
      add(names, "");
    } else if (event.len > 0) {
      add(names, std::string(name, ::strnlen(name, event.len)));
    }
  }
  const auto turn = turn_;
  for (auto name = names.begin(); name != names.end() && turn.use_count() > 1; ++name)  // until a callback destroys us
    (*turn)(*name);
}

Result<std::unique_ptr<DirWatch>> DirWatch::open(Loop& loop, const std::string& directory, Turn turn, Of of) {
  Fd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd) {
    Error error = error_from_errno(errno, "cannot watch a directory", directory);
    if (error.code == EMFILE) error.what += " (raise fs.inotify.max_user_instances)";
    return std::unexpected(std::move(error));
  }
  const std::uint32_t writes = of == Of::kEntries ? 0 : IN_CLOSE_WRITE;
  if (::inotify_add_watch(fd.get(), directory.c_str(), kEvents | writes) < 0) {
    Error error = error_from_errno(errno, "cannot watch a directory", directory);
    if (error.code == ENOSPC) error.what += " (raise fs.inotify.max_user_watches)";
    return std::unexpected(std::move(error));
  }
  std::unique_ptr<DirWatch> watch(new DirWatch(loop, std::move(fd), std::move(turn)));
  watch->id_ = loop.watch(watch->fd_.get(), EPOLLIN, [raw = watch.get()](std::uint32_t) { raw->read_events(); });
  if (watch->id_ == 0)
    return fail(Kind::kUnavailable, "cannot watch a directory: the event loop refuses it", directory);
  return watch;
}

}  // namespace tranche::os
