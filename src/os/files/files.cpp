#include "os/files/files.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <span>

#include "base/text.h"

namespace tranche::os {
namespace {

constexpr int kOpenDir = O_PATH | O_DIRECTORY | O_CLOEXEC;
constexpr int kAttempts = 100;  // to find a free temporary name
// Deeper than any tree of ours; bounds the stack and the descriptors that a hostile tree can use.
constexpr int kDeepestTree = 64;

// Entering a mount would remove another owner's files. Kernels before 5.8 do not report mounts; there, the device
// number distinguishes most of them.
bool is_mount_point(int parent, const char* name) {
  struct statx own{};
  struct statx above{};
  if (::statx(parent, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &own) != 0) return false;
  if ((own.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) return (own.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  if (::statx(parent, "", AT_EMPTY_PATH, STATX_TYPE, &above) != 0) return false;
  return own.stx_dev_major != above.stx_dev_major || own.stx_dev_minor != above.stx_dev_minor;
}

// Not empty, not absolute, no ".." and no NUL.
Status check_below(std::string_view relative) {
  if (relative.empty()) return fail(Kind::kInvalid, "a path below a directory is empty");
  if (relative.find('\0') != std::string_view::npos) {
    return fail(Kind::kInvalid, "a path contains a zero byte", in_quotes(relative));
  }
  if (relative.front() == '/')
    return fail(Kind::kInvalid, "a path below a directory starts with /", in_quotes(relative));
  for (const auto piece : split(relative, '/')) {
    if (piece == "..") return fail(Kind::kInvalid, "a path leaves its directory with \"..\"", in_quotes(relative));
  }
  return {};
}

std::string joined(const std::string& directory, std::string_view relative) {
  std::string path = directory;
  if (path.empty() || path.back() != '/') path += '/';
  return path.append(relative);
}

// The directory that holds the last component of `relative`, reached without following links, and that component.
struct Parent {
  Fd held;  // not set when the parent is `directory` itself
  int fd = -1;
  std::string name;
};
Result<Parent> parent_of(int directory, const std::string& directory_path, std::string_view relative) {
  TRY_STATUS(check_below(relative));
  Parent parent;
  parent.fd = directory;
  for (const auto piece : split(relative, '/')) {
    if (piece.empty() || piece == ".") continue;
    if (!parent.name.empty()) {
      Fd next(::openat(parent.fd, parent.name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!next) return fail_errno("cannot enter the directory " + parent.name, joined(directory_path, relative));
      parent.held = std::move(next);
      parent.fd = parent.held.get();
    }
    parent.name = piece;
  }
  if (parent.name.empty()) {
    return fail(Kind::kInvalid, "a path names its own directory", joined(directory_path, relative));
  }
  return parent;
}

// A unique name next to `name`: hidden, so that readers of the directory skip it.
std::string temporary_name(const std::string& name) {
  // A name that this process never used before; another process has another pid, and O_EXCL rejects a collision.
  static std::atomic<unsigned> counter = 0;
  constexpr std::size_t kRoom = 200;  // NAME_MAX is 255
  return "." + name.substr(0, kRoom) + "." + std::to_string(::getpid()) + "." +
         std::to_string(counter.fetch_add(1, std::memory_order_relaxed)) + ".tmp";
}

// The name that a temporary one was made of; "": it is not a temporary name of ours.
std::string_view name_of_temporary(std::string_view temporary) {
  const auto parts = split(temporary, '.');  // "", the name, which may have dots, the process, the counter, "tmp"
  if (parts.size() < 5 || !parts.front().empty() || parts.back() != "tmp") return {};
  const auto numbers = std::span(parts).last(3).first(2);
  if (!std::ranges::all_of(numbers, [](auto part) { return parse_unsigned(part).has_value(); })) return {};
  return {parts[1].begin(), numbers[0].begin() - 1};
}

// The names in the directory `fd`, sorted.
Result<std::vector<std::string>> names_of(int fd, const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator each("/proc/self/fd/" + std::to_string(fd), error);
  for (; !error && each != std::filesystem::directory_iterator(); each.increment(error))
    names.push_back(each->path().filename());
  if (error) return fail_errno("cannot list", path, error.value());
  std::ranges::sort(names);
  return names;
}

// O_NONBLOCK, so that a named pipe in a file's place cannot block us.
constexpr int kOpenToRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

Result<std::string> read_all(const Fd& fd, std::size_t limit, const std::string& path, bool files_only) {
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return fail_errno("cannot open", path);
  if (!S_ISREG(status.st_mode)) {
    if (files_only) return fail(Kind::kInvalid, "cannot read: it is not a file", path);
    // A shell's pipe is not in a file system in which a process can create files.
    struct statfs where{};
    const bool named = ::fstatfs(fd.get(), &where) != 0 || where.f_type != PIPEFS_MAGIC;
    if (S_ISFIFO(status.st_mode) && named) return fail(Kind::kInvalid, "cannot read: it is a named pipe", path);
    ::fcntl(fd.get(), F_SETFL, 0);
  }
  std::string content;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("cannot read", path);
    if (got == 0) return content;
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > limit) {
      return fail(Kind::kInvalid, "is longer than the " + std::to_string(limit) + " bytes that are read of it", path);
    }
  }
}

Status write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t wrote = ::write(fd, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return fail_errno("cannot write", path);
    content.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

// Removes `name` in the directory `parent` and everything below it.
Status remove_below(int parent, const std::string& name, const std::string& path, int depth = 0) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return fail_errno("cannot remove", path);
  const int refused = errno;
  if (depth > kDeepestTree) return fail(Kind::kInvalid, "cannot remove: nested too deeply", path);
  if (is_mount_point(parent, name.c_str())) {
    return fail(Kind::kConflict, "cannot remove: something is mounted there; unmount it first", path);
  }
  const Fd fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return {};
    const int err = errno == ENOTDIR || errno == ELOOP ? refused : errno;  // not a directory: unlink's error counts
    return fail_errno("cannot remove", path, err);
  }
  TRY(const auto names, names_of(fd.get(), path));
  for (const auto& child : names) TRY_STATUS(remove_below(fd.get(), child, joined(path, child), depth + 1));
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return fail_errno("cannot remove", path);
}

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

// Atomically replaces `name` in the directory `parent` with a file that `make` creates under a temporary name.
// kConflict: it is a directory.
template <class Make>
Status replace(int parent, const std::string& name, const std::string& path, std::string_view doing, Make make) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string temporary = temporary_name(name);
    Status made = make(temporary);
    if (!made && made.error().code == EEXIST) continue;
    if (made && ::renameat(parent, temporary.c_str(), parent, name.c_str()) != 0) {
      made = fail_errno(doing, path);
      if (made.error().code == EISDIR) made.error().kind = Kind::kConflict;
    }
    // rename() of two links to one file succeeds and keeps both (POSIX), so the temporary name is always removed.
    ::unlinkat(parent, temporary.c_str(), 0);
    return made;
  }
  return fail(Kind::kConflict, std::string(doing) + ": too many left-over temporary files beside it", path);
}

int set(const Fd& file, short type) {
  struct flock whole{};
  whole.l_type = type;
  return ::fcntl(file.get(), F_SETLK, &whole);
}

// S_IFREG and so on, of a link itself; 0 = the name does not exist.
mode_t type_of(const Dir& folder, const std::string& name) {
  struct stat status{};
  return ::fstatat(folder.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_mode & S_IFMT : 0;
}

}  // namespace

Result<Dir> Dir::open(const std::string& path) {
  Fd fd(::open(path.c_str(), kOpenDir));
  if (!fd) return fail_errno("cannot open as a directory", path);
  return Dir(std::move(fd), path);
}

// Existing directories may be reached through links (/var/run); new ones are real.
Result<Dir> Dir::create(const std::string& path, mode_t mode) {
  auto existing = open(path);
  const auto [above, name] = parts_of(under_root(path, ""));
  if (existing || existing.error().kind != Kind::kNotFound || name.empty()) return existing;
  TRY(const auto parent, create(above));
  TRY(Fd made, make_one(parent.fd(), name, mode, path));
  return Dir(std::move(made), path);
}

Result<Dir> Dir::make_subdir(std::string_view relative, mode_t mode) const {
  TRY(const auto parent, parent_of(fd_.get(), path_, relative));
  const std::string path = joined(path_, relative);
  TRY(Fd made, make_one(parent.fd, parent.name, mode, path));
  return Dir(std::move(made), path);
}

Result<std::string> Dir::read(std::string_view relative, std::size_t limit) const {
  TRY_STATUS(check_below(relative));
  const Fd fd(::openat(fd_.get(), std::string(relative).c_str(), kOpenToRead));
  return read_all(fd, limit, joined(path_, relative), true);
}

Status Dir::write_atomically(std::string_view relative, std::string_view content, mode_t mode, Sync sync) const {
  const std::string path = joined(path_, relative);
  TRY(const auto parent, parent_of(fd_.get(), path_, relative));
  const auto make = [&](const std::string& name) -> Status {
    const Fd fd(::openat(parent.fd, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!fd) return fail_errno("cannot make a file", path);
    if (::fchmod(fd.get(), mode) != 0) {  // despite the umask
      return fail_errno("cannot set the mode of a file", path);
    }
    auto written = write_all(fd.get(), content, path);
    if (written && sync == Sync::kYes && ::fsync(fd.get()) != 0) return fail_errno("cannot put on the disk", path);
    return written;
  };
  TRY_STATUS(replace(parent.fd, parent.name, path, "cannot put a file in place", make));
  if (sync == Sync::kNo) return {};
  const Fd folder(::openat(parent.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return fail_errno("cannot put on the disk", path_);
  return {};
}

Status Dir::remove(std::string_view relative) const {
  const auto parent = parent_of(fd_.get(), path_, relative);
  if (!parent) return parent.error().code == ENOENT ? Status() : std::unexpected(parent.error());
  if (::unlinkat(parent->fd, parent->name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return fail_errno("cannot remove", joined(path_, relative));
}

Status Dir::remove_tree(std::string_view relative) const {
  const auto parent = parent_of(fd_.get(), path_, relative);
  if (!parent) return parent.error().code == ENOENT ? Status() : std::unexpected(parent.error());
  return remove_below(parent->fd, parent->name, joined(path_, relative));
}

Status Dir::hard_link(std::string_view from_path, std::string_view relative) const {
  const std::string path = joined(path_, relative);
  TRY(const auto parent, parent_of(fd_.get(), path_, relative));
  const std::string from(from_path);
  const auto make = [&](const std::string& name) -> Status {
    if (::linkat(AT_FDCWD, from.c_str(), parent.fd, name.c_str(), 0) == 0) return {};
    return fail_errno("cannot link to " + from, path);
  };
  return replace(parent.fd, parent.name, path, "cannot put a link in place", make);
}

Result<std::vector<std::string>> Dir::list() const {
  return names_of(fd_.get(), path_);
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
  if (!check_below(relative)) return false;
  struct stat status{};
  return ::fstatat(fd_.get(), std::string(relative).c_str(), &status, 0) == 0;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  return read_all(Fd(::open(path.c_str(), kOpenToRead)), limit, path, false);
}

Status put_link(const std::string& target, const std::string& path) {
  const auto [directory, name] = parts_of(path);
  TRY(const auto dir, Dir::open(directory));
  return replace(dir.fd(), name, path, "cannot put a link in place", [&](const std::string& temporary) -> Status {
    if (::symlinkat(target.c_str(), dir.fd(), temporary.c_str()) == 0) return {};
    return fail_errno("cannot make a link", path);
  });
}

Result<std::string> read_link(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  const ssize_t length = ::readlink(path.c_str(), buffer.data(), buffer.size());
  if (length < 0) return fail_errno("cannot read a link", path);
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

bool is_mounted(const std::string& path) {
  const auto [directory, name] = parts_of(under_root(path, ""));
  const auto parent = Dir::open(directory);
  return parent && is_mount_point(parent->fd(), name.c_str());
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

// --- kept for the next start ---------------------------------------------------------------------------------------

std::string put_aside(const Dir& folder, const std::string& name, const std::string& why) {
  const std::string aside = name + kAsideSuffix;
  std::string what = folder.path() + "/" + name + " cannot be used (" + why + ") and ";
  Status moved = folder.remove_tree(aside);
  if (moved && ::renameat(folder.fd(), name.c_str(), folder.fd(), aside.c_str()) != 0)
    moved = fail_errno("cannot be renamed", aside);
  return what + (moved ? "was renamed to " + aside : "cannot be renamed: " + to_string(moved.error()));
}

Status write_kept(const Dir& folder, const std::string& name, std::string_view text, mode_t mode, Sync sync) {
  const auto written = folder.write_atomically(name, text, mode, sync);
  if (written || type_of(folder, name) != S_IFDIR) return written;
  (void)put_aside(folder, name, "it is a directory");
  return folder.write_atomically(name, text, mode, sync);
}

KeptFile read_kept(const Dir& folder, const std::string& name, std::size_t limit) {
  const auto type = type_of(folder, name);
  if (type == 0) return {};
  if (type != S_IFREG) return {{}, put_aside(folder, name, "it is not a regular file")};
  auto text = folder.read(name, limit);
  if (!text) return {{}, put_aside(folder, name, text.error().what)};
  if (text->empty() || text->back() == '\n') return {*std::move(text), {}};
  const auto end = text->rfind('\n');
  text->resize(end == std::string::npos ? 0 : end + 1);
  return {*std::move(text), folder.path() + "/" + name + " ends within a line, which is left out"};
}

void remove_temporaries(const Dir& folder, const std::function<bool(std::string_view)>& ours) {
  for (const auto& name : folder.list().value_or(std::vector<std::string>{}))
    if (const auto made_of = name_of_temporary(name); !made_of.empty() && ours(made_of)) (void)folder.remove(name);
}

std::string boot_id() {
  return std::string(trimmed(read_file("/proc/sys/kernel/random/boot_id").value_or("")));
}

// --- which directory a process sees ----------------------------------------------------------------------------------

namespace {

Fd open_cached(int root, const std::string& below) {
  open_how how{};
  how.flags = kOpenDir | O_NOFOLLOW;
  how.resolve = RESOLVE_CACHED | RESOLVE_NO_SYMLINKS;
  return Fd(static_cast<int>(::syscall(SYS_openat2, root, below.c_str(), &how, sizeof how)));
}

// Before Linux 5.12, or where a seccomp filter does not know openat2.
Fd open_by_parts(int root, std::string_view below) {
  Fd at(::fcntl(root, F_DUPFD_CLOEXEC, 0));
  for (const auto part : split(below, '/'))
    if (!part.empty() && at) at = Fd(::openat(at.get(), std::string(part).c_str(), kOpenDir | O_NOFOLLOW));
  return at;
}

std::optional<DirectoryId> id_of(int directory, const char* name, int flags) {
  struct statx info = {};
  if (::statx(directory, name, flags | AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &info) != 0 ||
      !S_ISDIR(info.stx_mode))
    return std::nullopt;
  return DirectoryId{std::uint64_t{info.stx_dev_major} << 32 | info.stx_dev_minor, info.stx_ino};
}

}  // namespace

Result<DirectoryId> directory_seen_by(const std::string& process, std::string_view path) {
  const std::string below(path.substr(path.find_first_not_of('/')));
  const Fd root(::open((process + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_errno("cannot look at the files of a process", process);
  Fd seen = open_cached(root.get(), below);
  if (!seen && (errno == ENOSYS || errno == EINVAL || errno == EPERM)) seen = open_by_parts(root.get(), below);
  if (!seen && errno == EAGAIN)
    return fail(Kind::kUnavailable, "the kernel does not have the path in its caches", process + "/root/" + below);
  if (!seen && (errno == ELOOP || errno == ENOTDIR)) errno = ENOENT;
  if (!seen) return fail_errno("cannot open", process + "/root/" + below);
  const auto id = id_of(seen.get(), "", AT_EMPTY_PATH);
  if (!id) return fail(Kind::kNotFound, "is not a directory", process + "/root/" + below);
  return *id;
}

std::optional<std::string> name_of_directory(const Dir& parent, const DirectoryId& directory) {
  for (const auto& name : parent.list().value_or(std::vector<std::string>{}))
    if (id_of(parent.fd(), name.c_str(), 0) == directory) return name;
  return std::nullopt;
}

}  // namespace tranche::os
