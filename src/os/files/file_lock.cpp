#include "os/files/file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace tranche::os {
namespace {

int set(const Fd& file, short type) {
  struct flock whole{};
  whole.l_type = type;
  return ::fcntl(file.get(), F_SETLK, &whole);
}

}  // namespace

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
