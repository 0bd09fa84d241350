#include "mps/control/log_tail.h"

#include "os/files/kept.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "os/process/process.h"

namespace tranche::host {
LogTail::LogTail(std::shared_ptr<LogWatch> watch, Fd file, std::uint64_t at, std::uint64_t bound,
                 std::function<void(const std::string&)> on_line)
    : watch_(std::move(watch)),
      file_(std::move(file)),
      at_(at),
      bound_(bound),
      on_line_(std::move(on_line)),
      lines_(kLongestOutputLine) {}

Result<std::unique_ptr<LogTail>> LogTail::open(std::shared_ptr<LogWatch> watch, const Dir& directory,
                                               const std::string& name,
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
  std::unique_ptr<LogTail> tail(new LogTail(std::move(watch), std::move(file),
                                            static_cast<std::uint64_t>(status.st_size), bound, std::move(on_line)));
  TRY(tail->id_, tail->watch_->add(path, [self = tail.get()] { self->read(); }));
  return tail;
}

LogTail::~LogTail() {
  watch_->remove(id_);
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
