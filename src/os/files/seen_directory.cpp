#include "os/files/seen_directory.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "os/loop/fd.h"

namespace tranche::os {
namespace {

constexpr int kOpen = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Fd open_cached(int root, const std::string& below) {
  open_how how{};
  how.flags = kOpen;
  how.resolve = RESOLVE_CACHED | RESOLVE_NO_SYMLINKS;
  return Fd(static_cast<int>(::syscall(SYS_openat2, root, below.c_str(), &how, sizeof how)));
}

// Before Linux 5.12, or where a seccomp filter does not know openat2.
Fd open_by_parts(int root, std::string_view below) {
  Fd at(::fcntl(root, F_DUPFD_CLOEXEC, 0));
  for (const auto part : split(below, '/'))
    if (!part.empty() && at) at = Fd(::openat(at.get(), std::string(part).c_str(), kOpen));
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
