// Settings derived from the options of `tranche mps` alone, and the lock of the MPS root.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "mps/daemon/daemon_home.h"
#include "os/files/files.h"
#include "os/log/log.h"
#include "os/socket/unix_socket.h"
#include "programs/mps/mps_program.h"

namespace tranche::programs {
namespace {

std::string driver_root_here(const MpsOptions& options, const config::Flags& flags) {
  return options.driver_root_here.empty() ? flags.plugin.container_driver_root : options.driver_root_here;
}

mps::ProcessEnvironment control_environment(const MpsOptions& options, const config::Flags& flags,
                                            const std::string& program, const std::string& mps_root_here) {
  auto env = mps::handed_on({options.environment.begin(), options.environment.end()});
  const std::string root = driver_root_here(options, flags);
  if (root.empty() || root == "/" || !program.starts_with(root)) return env;
  const auto folder = mps::link_driver_libraries(root, mps_root_here + "/" + mps::kDriverLibraries, root);
  const bool elsewhere = options.daemons_on_host && flags.nvidia_driver_root != "/";
  const auto on_host = elsewhere ? mps::link_driver_libraries(root, mps_root_here + "/" + mps::kHostsDriverLibraries,
                                                              flags.nvidia_driver_root)
                                 : std::string();
  for (const auto* made : {&folder, &on_host}) {
    if (*made) continue;
    log::warning("mps.driver_libraries",
                 {{"why", to_string(made->error())}, {"effect", "MPS servers may not find libcuda"}});
    return env;
  }
  if (!folder->empty()) env["LD_LIBRARY_PATH"] = mps::library_path(*folder, env["LD_LIBRARY_PATH"]);
  return env;
}

}  // namespace

std::string mps_root_of(const MpsOptions& options, const config::Flags& flags) {
  if (!options.mps_root_here.empty()) return options.mps_root_here;
  return flags.mps_root.empty() ? std::string(config::kDefaultMpsRoot) : flags.mps_root;
}

Result<mps::ControlBinary> control_program(const MpsOptions& options, const config::Flags& flags,
                                           const std::string& mps_root_here) {
  TRY(auto found, mps::find_control_binary({.given = options.mps_control,
                                            .driver_root = driver_root_here(options, flags),
                                            .path = config::variable(options.environment, "PATH")}));
  auto env = control_environment(options, flags, found, mps_root_here);
  return mps::ControlBinary{.path = std::move(found), .env = std::move(env)};
}

Result<os::FileLock> lock_mps_root(const std::string& mps_root) {
  const std::string path = mps_root + "/mps.lock";
  TRY(const auto root, os::Dir::open(mps_root));
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    // Another instance may hold the lock of the previous file.
    if (const auto answers = os::connect_to(mps_root + "/mps.sock", false); answers || answers.error().code == EAGAIN)
      return fail(Kind::kConflict, "another tranche mps serves this MPS root, and something is in its lock's place",
                  path);
    TRY_STATUS(root.remove_tree("mps.lock"));
  }
  // The process's and not the open file's: a child that a killed process was starting has a copy of the latter for a
  // moment, and would block the next instance.
  TRY(auto lock, os::FileLock::open(path));
  TRY(const bool taken, lock.take());
  if (!taken) {
    const std::string holder(trimmed(os::read_file(path, 64).value_or("")));
    return fail(Kind::kConflict,
                "another tranche mps " + (holder.empty() ? std::string() : "(pid " + holder + ") ") +
                    "serves the MPS root " + mps_root + "; stop it, or choose another --mps-root",
                path);
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.file().get(), 0) != 0 || ::pwrite(lock.file().get(), pid.data(), pid.size(), 0) < 0)
    return fail_errno("cannot write the lock of the MPS root", path);
  return lock;
}

mps::DaemonHome daemon_home(const MpsOptions& options, const config::Flags& flags, const std::string& mps_root_here) {
  return {.host = options.daemons_on_host,
          .host_pid = options.host_pid,
          .mps_root = flags.mps_root.empty() ? mps_root_here : flags.mps_root,
          .driver_root = flags.nvidia_driver_root,
          .driver_root_here = driver_root_here(options, flags),
          .cgroup = options.daemon_cgroup};
}

}  // namespace tranche::programs
