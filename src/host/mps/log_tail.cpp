#include "host/mps/log_tail.h"

#include "host/files/kept.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/grid.h"
#include "host/process/process.h"

namespace tranche::host {
namespace {

constexpr Duration kRest = std::chrono::milliseconds(20);

}  // namespace

LogTail::LogTail(Loop& loop, Fd file, std::uint64_t at, std::uint64_t bound,
                 std::function<void(const std::string&)> on_line)
    : loop_(loop),
      file_(std::move(file)),
      at_(at),
      bound_(bound),
      on_line_(std::move(on_line)),
      lines_(kLongestOutputLine) {}

Result<std::unique_ptr<LogTail>> LogTail::open(Loop& loop, const Dir& directory, const std::string& name,
                                               std::function<void(const std::string& line)> on_line,
                                               std::uint64_t bound) {
  const std::string path = directory.path() + "/" + name;
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) (void)put_aside(directory, name, "not a file");
  Fd file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::unexpected(error_from_errno(file ? EINVAL : errno, "cannot open the daemon's log", path));
  }
  std::unique_ptr<LogTail> tail(
      new LogTail(loop, std::move(file), static_cast<std::uint64_t>(status.st_size), bound, std::move(on_line)));
  TRY_STATUS(tail->watch(path));
  return tail;
}

LogTail::~LogTail() {
  loop_.cancel(watch_);
}

Status LogTail::watch(const std::string& path) {
  inotify_ = Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify_ || ::inotify_add_watch(inotify_.get(), path.c_str(), IN_MODIFY) < 0) {
    return std::unexpected(error_from_errno(errno, "cannot follow the daemon's log", path));
  }
  go_on();
  return {};
}

void LogTail::go_on() {
  watch_ = loop_.watch(inotify_.get(), EPOLLIN, [this](std::uint32_t) { written(); });
}

void LogTail::rest() {
  if (resting_.running()) return;
  loop_.cancel(std::exchange(watch_, 0));
  resting_.start(next_on_grid(loop_.now(), kRest) - loop_.now(), [this] {
    go_on();
    written();
  });
}

void LogTail::written() {
  char events[4096];
  ssize_t got = 0;
  do got = ::read(inotify_.get(), events, sizeof events);
  while (got > static_cast<ssize_t>(sizeof events / 2));
  read();
}

void LogTail::read() {
  char buffer[16384];
  for (bool from_start = false;;) {
    const ssize_t got = ::pread(file_.get(), buffer, sizeof buffer, static_cast<off_t>(at_));
    if (got < 0 && errno == EINTR) continue;
    struct stat status{};
    const bool emptied = got == 0 && !from_start && ::fstat(file_.get(), &status) == 0 &&
                         static_cast<std::uint64_t>(status.st_size) < at_;
    if (emptied) {
      at_ = 0;
      from_start = true;
      continue;
    }
    if (got <= 0) break;
    at_ += static_cast<std::uint64_t>(got);
    for (const auto& line : lines_.take({buffer, static_cast<std::size_t>(got)})) on_line_(line);
    if (got < static_cast<ssize_t>(sizeof buffer)) break;
  }
  if (at_ < bound_) return;
  if (::ftruncate(file_.get(), 0) == 0) at_ = 0;
}

}  // namespace tranche::host
