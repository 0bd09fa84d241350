#include "os/files/mount_properties.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <optional>

namespace tranche::host {
namespace {

// Linux 5.8 and later; absent before.
std::optional<std::uint64_t> mount_id(const std::string& path) {
  struct statx info = {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &info) != 0 || (info.stx_mask & STATX_MNT_ID) == 0)
    return std::nullopt;
  return info.stx_mnt_id;
}

// Containers' roots are overlays. A directory on the same mount as such a root is not a volume.
bool on_overlaid_root(const std::string& path) {
  struct statfs root = {};
  if (::statfs("/", &root) != 0 || root.f_type != OVERLAYFS_SUPER_MAGIC) return false;
  const auto own = mount_id(path);
  return own && own == mount_id("/");
}

}  // namespace

Result<MountProperties> mount_properties(const std::string& path) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0) return std::unexpected(error_from_errno(errno, "cannot look at", path));
  return MountProperties{.no_exec = (info.f_flag & ST_NOEXEC) != 0,
                         .read_only = (info.f_flag & ST_RDONLY) != 0,
                         .own_layer = on_overlaid_root(path)};
}

}  // namespace tranche::host
