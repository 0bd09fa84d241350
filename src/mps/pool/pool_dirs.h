#pragma once
// The directories of one pool under the MPS root, and the endpoints in them. An endpoint is a directory with a hard
// link to the daemon's `control` socket and nothing else; it outlives daemons and gets the new socket at each start. No
// threads.
#include <string>
#include <vector>

#include "base/result.h"
#include "grants/allocate/grant.h"
#include "os/files/files.h"

namespace tranche::host {

inline constexpr const char* kPidFile = "nvidia-cuda-mps-control.pid";  // the daemon writes it into its pipe directory
// Who may pass `<mps-root>/pools`. The daemon's own files are for every user (measured: sockets and pid file 0666), and
// containers get their grant's directory by a mount, so nobody else has to: kOwner. Where MPS cannot serve all users by
// one server, it starts servers as the clients' users, who have to reach the daemon: kServers (they pass, and cannot
// list).
enum class Reach { kOwner, kServers };
Status set_reach(const std::string& mps_root, Reach reach);  // also of a directory that is there

class PoolDirs {
 public:
  // Makes pipe, log and endpoints. kInvalid: a socket's path would be longer than the kernel takes, which the daemon
  // itself would answer with silence.
  static Result<PoolDirs> make(const allocate::Paths& paths, const std::string& pool);

  std::string pipe() const { return pipe_.path(); }
  std::string control_socket() const { return pipe_.path() + "/control"; }
  std::string endpoints() const { return endpoints_.path(); }
  std::string log_file() const { return log_.path() + "/control.log"; }
  const Dir& log() const { return log_; }

  // What a daemon that was killed leaves behind and a new one stumbles over. Only when no daemon runs there.
  Status remove_stale_sockets() const;
  Status remove_stale_server(const std::string& server) const;  // tier v3: with its namespaces' sockets
  // The daemon's present socket, or in tier v3 the one of the grant's namespace below `server`, into every endpoint.
  // All are tried; the first error is returned.
  Status relink_endpoints(const std::string& server = {}) const;
  Result<std::string> read_pid_file() const;

 private:
  PoolDirs(Dir pipe, Dir log, Dir endpoints)
      : pipe_(std::move(pipe)), log_(std::move(log)), endpoints_(std::move(endpoints)) {}
  Dir pipe_;
  Dir log_;
  Dir endpoints_;
};

}  // namespace tranche::host
