#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "os/files/below.h"

namespace tranche::os::files {
namespace {

// Deeper than any tree of ours; bounds the stack and the descriptors that a hostile tree can use.
constexpr int kDeepest = 64;

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

Status remove_level(int parent, const std::string& name, const std::string& path, int depth) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return std::unexpected(error_from_errno(errno, "cannot remove", path));
  const int refused = errno;
  if (depth > kDeepest) return fail(Kind::kInvalid, "cannot remove: nested too deeply", path);
  if (is_mount_point(parent, name.c_str())) {
    return fail(Kind::kConflict, "cannot remove: something is mounted there; unmount it first", path);
  }
  const Fd fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT) return {};
    const int err = errno == ENOTDIR || errno == ELOOP ? refused : errno;  // not a directory: unlink's error counts
    return std::unexpected(error_from_errno(err, "cannot remove", path));
  }
  TRY(const auto names, names_of(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0), path));
  for (const auto& child : names) TRY_STATUS(remove_level(fd.get(), child, joined(path, child), depth + 1));
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return std::unexpected(error_from_errno(errno, "cannot remove", path));
}

}  // namespace

Status remove_below(int parent, const std::string& name, const std::string& path) {
  return remove_level(parent, name, path, 0);
}

}  // namespace tranche::os::files
