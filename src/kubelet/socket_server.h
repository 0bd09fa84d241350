#pragma once
// gRPC services on a unix socket: bound, served and removed without a moment in which a newcomer's socket could be
// taken down by an old server's farewell. It listens on a name of its own, which is then renamed over the real one:
// kubelet never finds the path missing or refusing, and gRPC's habit of unlinking what it listened on, when it stops,
// removes a name that is not in use. Taking over from a different process that serves there is deliberate: during a
// rolling update the newest instance is the one that stays. Loop thread only.
#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/socket/unix_socket.h"

namespace tranche::kubelet {

// A socket is served under a name of its own and then renamed, so that no client finds one that does not answer yet. Of
// a process that was killed in between the name stays. The number in it is the time, one count for all processes of the
// node; the last four digits are the resource's: no two servers choose the same.
std::string temporary_socket_name(const std::string& socket_name, MonoTime now);

// Removes sockets in a directory whose names begin and end so, and at which no process answers: what killed processes
// left.
void remove_deserted_sockets(const std::string& directory, std::string_view begin, std::string_view end);

class SocketServer {
 public:
  // At <directory>/<name>, after it has removed what killed servers of this socket left. The services must outlive it.
  static Result<std::unique_ptr<SocketServer>> open(const std::vector<grpc::Service*>& services,
                                                    const std::string& directory, const std::string& name, MonoTime now,
                                                    Duration stop_within);
  // Removes the socket if it is ours, and waits for calls under way not longer than stop_within; then they are
  // cancelled, and their handlers must finish them.
  ~SocketServer();
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

  // Who answered at our path just before we took it over.
  const os::Listener& predecessor() const { return predecessor_; }

  enum class Place {
    kOurs,      // the path leads to us
    kDeleted,   // nothing is there: kubelet restarts, or the file was removed
    kTaken,     // a different process answers there
    kDeserted,  // a socket is there, not ours, and does not answer (or not yet)
  };
  struct Finding {
    Place place = Place::kOurs;
    pid_t foreign_process = 0;
  };
  Finding look() const;

 private:
  SocketServer(std::string path, Duration stop_within) : path_(std::move(path)), stop_within_(stop_within) {}

  const std::string path_;
  const Duration stop_within_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<os::SocketFile> file_;
  os::Listener predecessor_;
};

// Durations as gRPC takes them: as spans from the call, so that no clock is read here and a step of the wall clock
// moves no deadline.
inline gpr_timespec grpc_span(Duration duration) {
  return gpr_time_from_nanos(duration.count(), GPR_TIMESPAN);
}

// A client channel to a local unix socket, with nothing shared between channels: a fresh one connects at once, however
// often the one before it failed. Connects lazily.
std::shared_ptr<grpc::Channel> local_channel(const std::string& socket_path);

}  // namespace tranche::kubelet
