#include "os/files/below.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>

#include "base/text.h"

namespace tranche::os::files {
namespace {

// Deeper than any tree of ours; bounds the stack and the descriptors that a hostile tree can use.
constexpr int kDeepest = 64;

}  // namespace

bool is_mount_point(int parent, const char* name) {
  struct statx own{};
  struct statx above{};
  if (::statx(parent, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &own) != 0) return false;
  if ((own.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) return (own.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  if (::statx(parent, "", AT_EMPTY_PATH, STATX_TYPE, &above) != 0) return false;
  return own.stx_dev_major != above.stx_dev_major || own.stx_dev_minor != above.stx_dev_minor;
}

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

std::string temporary_name(const std::string& name) {
  // A name that this process never used before; another process has another pid, and O_EXCL rejects a collision.
  static std::atomic<unsigned> counter = 0;
  constexpr std::size_t kRoom = 200;  // NAME_MAX is 255
  return "." + name.substr(0, kRoom) + "." + std::to_string(::getpid()) + "." +
         std::to_string(counter.fetch_add(1, std::memory_order_relaxed)) + ".tmp";
}

std::string_view name_of_temporary(std::string_view temporary) {
  constexpr std::string_view kSuffix = ".tmp";
  if (!temporary.starts_with('.') || !temporary.ends_with(kSuffix)) return {};
  temporary = temporary.substr(1, temporary.size() - 1 - kSuffix.size());
  for (int numbers = 0; numbers < 2; ++numbers) {  // the counter, the process
    const auto dot = temporary.rfind('.');
    if (dot == std::string_view::npos || !parse_unsigned(temporary.substr(dot + 1))) return {};
    temporary = temporary.substr(0, dot);
  }
  return temporary;
}

Result<std::vector<std::string>> names_of(int fd, const std::string& path) {
  if (fd < 0) return fail_errno("cannot list", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(fd), &::closedir);
  if (!dir) {
    const int err = errno;
    ::close(fd);
    return fail_errno("cannot list", path, err);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return fail_errno("cannot list", path);
  std::ranges::sort(names);
  return names;
}

Result<std::string> read_all(int fd, std::size_t limit, const std::string& path) {
  std::string content;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
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

Status remove_below(int parent, const std::string& name, const std::string& path, int depth) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return fail_errno("cannot remove", path);
  const int refused = errno;
  if (depth > kDeepest) return fail(Kind::kInvalid, "cannot remove: nested too deeply", path);
  if (is_mount_point(parent, name.c_str())) {
    return fail(Kind::kConflict, "cannot remove: something is mounted there; unmount it first", path);
  }
  const Fd fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return {};
    const int err = errno == ENOTDIR || errno == ELOOP ? refused : errno;  // not a directory: unlink's error counts
    return fail_errno("cannot remove", path, err);
  }
  TRY(const auto names, names_of(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0), path));
  for (const auto& child : names) TRY_STATUS(remove_below(fd.get(), child, joined(path, child), depth + 1));
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return fail_errno("cannot remove", path);
}

}  // namespace tranche::os::files
