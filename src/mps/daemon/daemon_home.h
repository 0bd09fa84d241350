#pragma once
// Where a control daemon runs. In the pod, it is our child and ends with our container. On the host (--daemon-home
// host), it runs in the host's mount namespace, in cgroups and a session of its own, so that it survives the end of our
// container (docs/internals/daemon-home.md). Needs the host's process namespace (hostPID) and CAP_SYS_ADMIN.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::mps {

struct DaemonHome {
  bool host = false;
  int host_pid = 1;                   // the process whose namespaces are the host's
  std::string mps_root = {};          // path on the host
  std::string driver_root = "/";      // path on the host
  std::string driver_root_here = {};  // the same directory as a path of this process
  std::string cgroup = {};  // parent of the pools' cgroups; "" = <each hierarchy>/tranche; "none" = our cgroups
};

// kDenied, kUnsupported: what the container lacks, and how to provide it. A home in the pod needs nothing.
Status check_home(const DaemonHome& home);

// The daemon's program and environment with paths that are valid in its home. `path` and `env` hold paths of this
// process. Pure.
std::string program_at_home(const DaemonHome& home, const std::string& path);
std::map<std::string, std::string> environment_at_home(const DaemonHome& home,
                                                       const std::map<std::string, std::string>& env);

inline constexpr const char* kCgroupRoot = "/sys/fs/cgroup";
inline constexpr const char* kNoCgroup = "none";  // --daemon-cgroup none: stay in our cgroups

// The cgroups of a daemon that has to outlive our container: one of its own in every hierarchy, because a runtime may
// track and end a container by any hierarchy. `self` is the text of /proc/self/cgroup. Version 2 alone:
// <root>/tranche/<pool>. Version 1, also mixed: <root>/<hierarchy>/tranche/<pool> for each, with the version 2 part of
// a mixed one in "unified". Malformed lines and names that would lead out of the root are skipped. Pure.
std::vector<std::string> daemon_cgroups(std::string_view self, const std::string& root, const std::string& pool);

// Process::start() for the daemon of `pool`; in the pod, the same. On the host, errors also name the step that failed,
// and a process that could not enter its home does not keep running.
Result<std::unique_ptr<os::Process>> launch_at_home(os::Loop& loop, const DaemonHome& home, const std::string& pool,
                                                    os::Command what, std::function<void(os::ExitNote)> on_exit);

// --- the driver's libraries ------------------------------------------------------------------------------------------

// Links to those of a mounted driver root in one folder, for programs that run in this container: MPS servers and CUDA
// proofs open libcuda by its name. The root's own folders must not be searched, because they also hold the C library of
// the driver's container or of the host, which our loader cannot use. Any thread.

// Below the MPS root. Links in the first folder lead to the root as our container sees it; links in the second as the
// host sees it, for daemons that run there (--daemon-home host).
inline constexpr const char* kDriverLibraries = "driver-libraries";
inline constexpr const char* kHostsDriverLibraries = "driver-libraries-of-host";

// Whether the file belongs to the driver: libcuda.so.1, libnvidia-ml.so.1 … Pure.
bool is_driver_library(const std::string& name);

// Makes `folder` hold exactly one link for each driver library below `driver_root`, and returns the folder. Returns ""
// if there are none, or if the root is the container's own ("" or "/"), where the loader finds them without help. The
// links name the root `named`.
Result<std::string> link_driver_libraries(const std::string& driver_root, const std::string& folder,
                                          const std::string& named);

// LD_LIBRARY_PATH with the folder before its present value. Pure.
std::string library_path(const std::string& folder, const std::string& there);

}  // namespace tranche::mps
