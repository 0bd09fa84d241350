#include "programs/mps/one_instance.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "os/files/files.h"
#include "os/socket/unix_socket.h"

namespace tranche::agent {

Result<host::FileLock> lock_mps_root(const std::string& mps_root) {
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
  // The process's and not the open file's: a child that a killed process was starting has a copy of the latter for a
  // moment, and would block the next instance.
  TRY(auto lock, host::FileLock::open(path));
  TRY(const bool taken, lock.take());
  if (!taken) {
    const std::string holder(trimmed(host::read_file(path, 64).value_or("")));
    return fail(Kind::kConflict,
                "another tranche mps " + (holder.empty() ? std::string() : "(pid " + holder + ") ") +
                    "serves the MPS root " + mps_root + "; stop it, or choose another --mps-root",
                path);
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.file().get(), 0) != 0 || ::pwrite(lock.file().get(), pid.data(), pid.size(), 0) < 0) {
    return std::unexpected(error_from_errno(errno, "cannot write the lock of the MPS root", path));
  }
  return lock;
}

}  // namespace tranche::agent
