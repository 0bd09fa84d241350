#pragma once
// One resource's gRPC server on its unix socket: bound, served and removed without a moment in which a newcomer's
// socket could be taken down by an old server's farewell.
//
// The server listens on a name of its own, which is then renamed over the real one: kubelet never finds the path
// missing or refusing, and gRPC's habit of unlinking what it listened on, when it stops, hits a name nobody uses.
// Taking over from a live stranger is deliberate: during a rolling update the newest instance is the one that stays.
// Loop thread only.
#include <grpcpp/server.h>

#include <memory>
#include <optional>
#include <string>

#include "host/kubelet/device_plugin_service.h"
#include "host/kubelet/socket_file.h"

namespace tranche::host {

class Endpoint {
 public:
  // temporary_name: unlike any that another process could choose in this directory.
  static Result<std::unique_ptr<Endpoint>> open(std::unique_ptr<DevicePluginService> service, std::string path,
                                                const std::string& temporary_name, Duration stop_within);
  ~Endpoint();  // finishes streams, waits for calls under way (not longer than stop_within), removes the socket if ours
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  WatchStreams& streams() { return service_->streams(); }
  // Who answered at our path just before we took it over.
  const Listener& predecessor() const { return predecessor_; }

  enum class Place {
    kOurs,      // the path leads to us
    kDeleted,   // nothing is there: kubelet restarts, or somebody tidied up
    kTaken,     // a live stranger answers there
    kDeserted,  // a socket is there, not ours, and nobody answers (or not yet)
  };
  struct Finding {
    Place place = Place::kOurs;
    pid_t stranger = 0;
  };
  Finding look() const;

 private:
  Endpoint(std::unique_ptr<DevicePluginService> service, std::string path, Duration stop_within)
      : service_(std::move(service)), path_(std::move(path)), stop_within_(stop_within) {}

  std::unique_ptr<DevicePluginService> service_;
  const std::string path_;
  const Duration stop_within_;
  std::unique_ptr<grpc::Server> server_;
  std::optional<SocketFile> file_;
  Listener predecessor_;
};

}  // namespace tranche::host
