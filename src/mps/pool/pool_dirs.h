#pragma once
// The directories of one pool under the MPS root, and its endpoints. An endpoint is a directory that holds a hard link
// to the daemon's `control` socket and nothing else. It outlives daemons and gets the new socket at each start. No
// threads.
#include <string>
#include <vector>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "os/files/files.h"

namespace tranche::host {

inline constexpr const char* kPidFile = "nvidia-cuda-mps-control.pid";  // the daemon writes it into its pipe directory
// Which users can access `<mps-root>/pools`. The daemon's own files are accessible to every user (measured: sockets and
// pid file 0666), and containers get their grant's directory by a mount, so no other user needs access: kOwner. If one
// MPS server cannot serve all users, MPS starts servers as the clients' users, which have to reach the daemon: kServers
// (they can pass through the directory, but not list it).
enum class Reach { kOwner, kServers };
Status set_reach(const std::string& mps_root, Reach reach);  // also of an existing directory

class PoolDirs {
 public:
  // Creates the pipe, log and endpoint directories. kInvalid: a socket's path would be longer than the kernel accepts;
  // the daemon itself would not report that.
  static Result<PoolDirs> make(const allocate::Paths& paths, const std::string& pool);

  std::string pipe() const { return pipe_.path(); }
  std::string control_socket() const { return pipe_.path() + "/control"; }
  std::string endpoints() const { return endpoints_.path(); }
  const Dir& log() const { return log_; }

  // Removes the sockets of a killed daemon, which would block a new one. Call only when no daemon runs there.
  Status remove_stale_sockets() const;
  // Links the daemon's present socket into every endpoint. Tries all; returns the first error.
  Status relink_endpoints() const;
  Result<std::string> read_pid_file() const;

 private:
  PoolDirs(Dir pipe, Dir log, Dir endpoints)
      : pipe_(std::move(pipe)), log_(std::move(log)), endpoints_(std::move(endpoints)) {}
  Dir pipe_;
  Dir log_;
  Dir endpoints_;
};

}  // namespace tranche::host
