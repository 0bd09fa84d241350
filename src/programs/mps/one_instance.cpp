#include "programs/mps/one_instance.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "os/files/files.h"
#include "os/socket/unix_socket.h"

namespace tranche::agent {

Result<host::Fd> lock_mps_root(const std::string& mps_root) {
  const std::string path = mps_root + "/mps.lock";
  TRY(const auto root, host::Dir::open(mps_root));
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    // Another instance may hold the lock of the previous file.
    if (const auto answers = host::connect_to(mps_root + "/mps.sock", false); answers || answers.error().code == EAGAIN)
      return fail(Kind::kConflict, "another tranche mps serves this MPS root, and something is in its lock's place",
                  path);
    TRY_STATUS(root.remove_tree("mps.lock"));
  }
  host::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return std::unexpected(error_from_errno(errno, "cannot open the lock of the MPS root", path));
  // A user who may read the file could lock it, which would block this program.
  if (::fchmod(file.get(), 0600) != 0)
    return std::unexpected(error_from_errno(errno, "cannot close the lock of the MPS root to other users", path));
  // A lock of the process, not of the open file: a child that a killed process was starting has a copy of the latter
  // for a moment, and would block the next instance.
  struct flock whole{};
  whole.l_type = F_WRLCK;
  if (::fcntl(file.get(), F_SETLK, &whole) != 0) {
    if (errno != EAGAIN && errno != EACCES)
      return std::unexpected(error_from_errno(errno, "cannot lock the MPS root", path));
    const std::string holder(trimmed(host::read_file(path, 64).value_or("")));
    return fail(Kind::kConflict,
                "another tranche mps " + (holder.empty() ? std::string() : "(pid " + holder + ") ") +
                    "serves the MPS root " + mps_root + "; stop it, or choose another --mps-root",
                path);
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), pid.data(), pid.size(), 0) < 0) {
    return std::unexpected(error_from_errno(errno, "cannot write the lock of the MPS root", path));
  }
  return file;
}

}  // namespace tranche::agent
