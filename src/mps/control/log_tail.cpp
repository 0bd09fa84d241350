#include "mps/control/log_tail.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/time.h"
#include "os/files/files.h"

namespace tranche::mps {
namespace {

constexpr Duration kRest = std::chrono::milliseconds(20);
constexpr std::size_t kLongestLine = 16384;  // of a longer one, the beginning is delivered, marked with "…"

}  // namespace

Result<std::shared_ptr<LogWatch>> LogWatch::open(os::Loop& loop) {
  os::Fd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify) return fail_errno("cannot follow logs", "inotify");
  std::shared_ptr<LogWatch> watch(new LogWatch(loop, std::move(inotify)));
  watch->go_on();
  return watch;
}

LogWatch::~LogWatch() {
  loop_.cancel(watch_);
}

void LogWatch::go_on() {
  watch_ = loop_.watch(inotify_.get(), EPOLLIN, [this](std::uint32_t) { read(); });
}

void LogWatch::rest() {
  if (resting_.running()) return;
  loop_.cancel(std::exchange(watch_, 0));
  resting_.start(next_on_grid(loop_.now(), kRest) - loop_.now(), [this] {
    go_on();
    read();
  });
}

void LogWatch::read() {
  const auto self = shared_from_this();
  char events[4096];
  while (::read(inotify_.get(), events, sizeof events) > static_cast<ssize_t>(sizeof events / 2)) {
  }
  const auto all = tails_;  // a line may end tails
  for (auto* const tail : all)
    if (tails_.contains(tail)) tail->read();
}

LogTail::LogTail(std::shared_ptr<LogWatch> watch, os::Fd file, std::uint64_t at, std::uint64_t bound,
                 std::function<void(const std::string&)> on_line)
    : watch_(std::move(watch)),
      file_(std::move(file)),
      at_(at),
      bound_(bound),
      on_line_(std::move(on_line)),
      lines_(kLongestLine) {}

Result<std::unique_ptr<LogTail>> LogTail::open(std::shared_ptr<LogWatch> watch, const os::Dir& directory,
                                               const std::string& name,
                                               std::function<void(const std::string& line)> on_line,
                                               std::uint64_t bound) {
  const std::string path = directory.path() + "/" + name;
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) (void)os::put_aside(directory, name, "not a file");
  os::Fd file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return fail_errno("cannot open the daemon's log", path, file ? EINVAL : errno);
  std::unique_ptr<LogTail> tail(new LogTail(std::move(watch), std::move(file),
                                            static_cast<std::uint64_t>(status.st_size), bound, std::move(on_line)));
  // Watches for writes: the daemon holds the file open as long as it runs, so a watch for closed files would report
  // nothing before its exit. The watch stays when this tail ends: a file whose daemon has ended is not written to.
  if (::inotify_add_watch(tail->watch_->inotify_.get(), path.c_str(), IN_MODIFY) < 0)
    return fail_errno("cannot follow the daemon's log", path);
  tail->watch_->tails_.insert(tail.get());
  return tail;
}

LogTail::~LogTail() {
  watch_->tails_.erase(this);
}

void LogTail::read() {
  struct stat status{};
  if (::fstat(file_.get(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) < at_) at_ = 0;  // was emptied
  char buffer[16384];
  ssize_t got = 0;
  do {
    got = ::pread(file_.get(), buffer, sizeof buffer, static_cast<off_t>(at_));
    if (got <= 0) break;
    at_ += static_cast<std::uint64_t>(got);
    for (const auto& line : lines_.take({buffer, static_cast<std::size_t>(got)})) on_line_(line);
  } while (got == static_cast<ssize_t>(sizeof buffer));
  if (at_ >= bound_ && ::ftruncate(file_.get(), 0) == 0) at_ = 0;
}

}  // namespace tranche::mps
