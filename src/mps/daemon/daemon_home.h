#pragma once
// Where a control daemon lives. In the pod: as our child, it ends with our container. On the host (--daemon-home host):
// in the host's mount namespace, in cgroups of its own and in a session of its own, so that the end of our container
// does not reach it (docs/internals/daemon-home.md). Needs the host's process namespace (hostPID) and CAP_SYS_ADMIN.
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::host {

struct DaemonHome {
  bool host = false;
  int host_pid = 1;                   // whose namespaces are the host's
  std::string mps_root = {};          // of the pools, as the host names it
  std::string driver_root = "/";      // the host's
  std::string driver_root_here = {};  // the same as this process names it
  std::string cgroup = {};            // parent of the pools' cgroups; "" = <each hierarchy>/tranche; "none" = ours
};

// kDenied, kUnsupported: what the container lacks, and what to give it. Nothing to be asked for a home in the pod.
Status check_home(const DaemonHome& home);

// What the daemon is told and started as: paths as its home names them. `path` is the program here, `env` its
// environment here. Pure.
std::string program_at_home(const DaemonHome& home, const std::string& path);
std::map<std::string, std::string> environment_at_home(const DaemonHome& home,
                                                       const std::map<std::string, std::string>& env);

// Process::start() for a daemon of `pool`: the same in the pod. On the host the errors also say which step failed; a
// process that could not get its home is not left behind.
Result<std::unique_ptr<Process>> launch_at_home(Loop& loop, const DaemonHome& home, const std::string& pool,
                                                Command what, std::function<void(ExitNote)> on_exit);

}  // namespace tranche::host
