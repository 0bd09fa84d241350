#include "os/files/files.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/text.h"
#include "os/files/below.h"

namespace tranche::os {
namespace {

constexpr int kOpenDir = O_PATH | O_DIRECTORY | O_CLOEXEC;
constexpr int kAttempts = 100;  // to find a free temporary name

// Opens one directory below another; creates it with exactly `mode` if it does not exist.
Result<Fd> make_one(int parent, const std::string& name, mode_t mode, const std::string& path) {
  if (::mkdirat(parent, name.c_str(), mode) == 0) {
    // The umask may have removed bits; only we can write into the new directory, so this is the one that we made.
    const Fd made(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (made && ::fchmod(made.get(), mode) != 0) return fail_errno("cannot set the mode of a directory", path);
  } else if (errno != EEXIST) {
    return fail_errno("cannot make a directory", path);
  }
  Fd opened(::openat(parent, name.c_str(), kOpenDir | O_NOFOLLOW));
  if (!opened) return fail_errno("cannot open as a directory", path);
  return opened;
}

// Atomically replaces `parent.name` with a file that `make` creates under a temporary name.
template <class Make>
Status replace(const files::Parent& parent, const std::string& path, std::string_view doing, Make make) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string temporary = files::temporary_name(parent.name);
    const Status made = make(parent.fd, temporary);
    if (!made && made.error().code == EEXIST) continue;
    if (!made) {
      ::unlinkat(parent.fd, temporary.c_str(), 0);
      return made;
    }
    const int renamed = ::renameat(parent.fd, temporary.c_str(), parent.fd, parent.name.c_str());
    const int err = errno;
    // rename() of two links to one file succeeds and keeps both (POSIX), so the temporary name is always removed.
    ::unlinkat(parent.fd, temporary.c_str(), 0);
    if (renamed != 0) return fail_errno(doing, path, err);
    return {};
  }
  return fail(Kind::kConflict, std::string(doing) + ": too many left-over temporary files beside it", path);
}

int set(const Fd& file, short type) {
  struct flock whole{};
  whole.l_type = type;
  return ::fcntl(file.get(), F_SETLK, &whole);
}

}  // namespace

Result<Dir> Dir::open(const std::string& path) {
  Fd fd(::open(path.c_str(), kOpenDir));
  if (!fd) return fail_errno("cannot open as a directory", path);
  return Dir(std::move(fd), path);
}

Result<Dir> Dir::create(const std::string& path, mode_t mode) {
  if (auto existing = open(path)) return existing;
  const bool absolute = path.starts_with('/');
  const auto pieces = split(path, '/');
  std::string so_far = absolute ? "/" : ".";
  Fd at(::open(so_far.c_str(), kOpenDir));
  if (!at) return fail_errno("cannot open as a directory", so_far);
  if (!absolute) so_far.clear();
  const auto last = std::ranges::find_if(pieces.rbegin(), pieces.rend(), [](auto piece) { return !piece.empty(); });
  for (auto piece = pieces.begin(); piece != pieces.end(); ++piece) {
    if (piece->empty()) continue;
    if (!so_far.empty() && so_far.back() != '/') so_far += '/';
    so_far += *piece;
    // Existing directories may be reached through links (/var/run); new ones are real.
    Fd next(::openat(at.get(), std::string(*piece).c_str(), kOpenDir));
    if (!next && errno == ENOENT) {
      const bool is_last = piece == std::prev(last.base());
      TRY(next, make_one(at.get(), std::string(*piece), is_last ? mode : 0755, so_far));
    }
    if (!next) return fail_errno("cannot open as a directory", so_far);
    at = std::move(next);
  }
  return Dir(std::move(at), path);
}

Result<Dir> Dir::make_subdir(std::string_view relative, mode_t mode) const {
  TRY(const auto parent, files::parent_of(fd_.get(), path_, relative));
  const std::string path = files::joined(path_, relative);
  TRY(Fd made, make_one(parent.fd, parent.name, mode, path));
  return Dir(std::move(made), path);
}

Result<std::string> Dir::read(std::string_view relative, std::size_t limit) const {
  TRY_STATUS(files::check_below(relative));
  const std::string path = files::joined(path_, relative);
  // O_NONBLOCK so that a named pipe in a file's place cannot block us.
  const Fd fd(::openat(fd_.get(), std::string(relative).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno("cannot open", path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_errno("cannot look at", path);
  if (!S_ISREG(status.st_mode)) return fail(Kind::kInvalid, "cannot read: it is not a file", path);
  return files::read_all(fd.get(), limit, path);
}

Status Dir::write_atomically(std::string_view relative, std::string_view content, mode_t mode, Sync sync) const {
  const std::string path = files::joined(path_, relative);
  TRY(const auto parent, files::parent_of(fd_.get(), path_, relative));
  TRY_STATUS(replace(parent, path, "cannot put a file in place", [&](int at, const std::string& name) -> Status {
    const Fd fd(::openat(at, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!fd) return fail_errno("cannot make a file", path);
    if (::fchmod(fd.get(), mode) != 0) {  // despite the umask
      return fail_errno("cannot set the mode of a file", path);
    }
    auto written = files::write_all(fd.get(), content, path);
    if (written && sync == Sync::kYes && ::fsync(fd.get()) != 0) return fail_errno("cannot put on the disk", path);
    return written;
  }));
  if (sync == Sync::kNo) return {};
  const Fd folder(::openat(parent.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return fail_errno("cannot put on the disk", path_);
  return {};
}

Status Dir::remove(std::string_view relative) const {
  const auto parent = files::parent_of(fd_.get(), path_, relative);
  if (!parent && parent.error().code == ENOENT) return {};
  if (!parent) return std::unexpected(parent.error());
  if (::unlinkat(parent->fd, parent->name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return fail_errno("cannot remove", files::joined(path_, relative));
}

Status Dir::remove_tree(std::string_view relative) const {
  const auto parent = files::parent_of(fd_.get(), path_, relative);
  if (!parent && parent.error().code == ENOENT) return {};
  if (!parent) return std::unexpected(parent.error());
  return files::remove_below(parent->fd, parent->name, files::joined(path_, relative));
}

Status Dir::hard_link(std::string_view from_path, std::string_view relative) const {
  const std::string path = files::joined(path_, relative);
  TRY(const auto parent, files::parent_of(fd_.get(), path_, relative));
  const std::string from(from_path);
  // In most cases there is no file to replace.
  if (::linkat(AT_FDCWD, from.c_str(), parent.fd, parent.name.c_str(), 0) == 0) return {};
  if (errno != EEXIST) return fail_errno("cannot link to " + from, path);
  return replace(parent, path, "cannot put a link in place", [&](int at, const std::string& name) -> Status {
    if (::linkat(AT_FDCWD, from.c_str(), at, name.c_str(), 0) == 0) return {};
    return fail_errno("cannot link to " + from, path);
  });
}

Result<std::vector<std::string>> Dir::list() const {
  return files::names_of(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), path_);
}

std::vector<std::string> names_in(const std::string& directory) {
  const auto dir = Dir::open(directory);
  return (dir ? dir->list() : std::unexpected(dir.error())).value_or(std::vector<std::string>{});
}

PathParts parts_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

std::string under_root(std::string root, std::string_view path) {
  while (root.ends_with('/')) root.pop_back();
  return root.append(path);
}

bool Dir::exists(std::string_view relative) const {
  if (!files::check_below(relative)) return false;
  struct stat status{};
  return ::fstatat(fd_.get(), std::string(relative).c_str(), &status, 0) == 0;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return fail_errno("cannot open", path);
  if (!S_ISREG(status.st_mode)) {
    // A shell's pipe is not in a file system in which a process can create files.
    struct statfs where{};
    const bool named = ::fstatfs(fd.get(), &where) != 0 || where.f_type != PIPEFS_MAGIC;
    if (S_ISFIFO(status.st_mode) && named) return fail(Kind::kInvalid, "cannot read: it is a named pipe", path);
    ::fcntl(fd.get(), F_SETFL, 0);
  }
  return files::read_all(fd.get(), limit, path);
}

Status put_link(const std::string& target, const std::string& path) {
  // A name of this process alone; a file of a killed process with our pid may be replaced.
  const std::string beside = path + "." + std::to_string(::getpid()) + ".new";
  ::unlink(beside.c_str());
  if (::symlink(target.c_str(), beside.c_str()) != 0) return fail_errno("cannot make a link", beside);
  if (::rename(beside.c_str(), path.c_str()) == 0) return {};
  const int err = errno;
  ::unlink(beside.c_str());
  Error error = error_from_errno(err, "cannot put a link in place", path);
  if (err == EISDIR || err == ENOTEMPTY || err == EEXIST) error.kind = Kind::kConflict;
  return std::unexpected(std::move(error));
}

Result<std::string> read_link(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  const ssize_t length = ::readlink(path.c_str(), buffer.data(), buffer.size());
  if (length < 0) return fail_errno("cannot read a link", path);
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

bool is_mounted(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const auto [directory, name] = parts_of(path);
  const auto parent = Dir::open(directory);
  return parent && files::is_mount_point(parent->fd(), name.c_str());
}

bool lead_to_one_file(const std::string& a, const std::string& b) {
  struct stat one{}, two{};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &two) == 0 && one.st_dev == two.st_dev &&
         one.st_ino == two.st_ino;
}

Result<FileLock> FileLock::open(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return fail_errno("cannot open the lock", path);
  // A user who may read the file could lock it, which would block this program.
  if (::fchmod(file.get(), 0600) != 0) return fail_errno("cannot close the lock to other users", path);
  return FileLock(std::move(file), path);
}

Result<bool> FileLock::take() {
  if (set(file_, F_WRLCK) == 0) return taken_ = true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return fail_errno("cannot lock", path_);
}

void FileLock::free() {
  (void)set(file_, F_UNLCK);
  taken_ = false;
}

}  // namespace tranche::os
