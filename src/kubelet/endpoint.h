#pragma once
// One resource's gRPC server on its unix socket (socket_server.h). Loop thread only.
#include <memory>
#include <string>

#include "kubelet/device_plugin_service.h"
#include "kubelet/socket_server.h"

namespace tranche::host {

class Endpoint {
 public:
  using Place = SocketServer::Place;
  using Finding = SocketServer::Finding;

  // temporary_name: unlike any that a different process could choose in this directory.
  static Result<std::unique_ptr<Endpoint>> open(std::unique_ptr<DevicePluginService> service, std::string path,
                                                const std::string& temporary_name, Duration stop_within);
  ~Endpoint();  // finishes streams, waits for calls under way (not longer than stop_within), removes the socket if ours
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  WatchStreams& streams() { return service_->streams(); }
  const Listener& predecessor() const { return server_->predecessor(); }
  Finding look() const { return server_->look(); }

 private:
  Endpoint(std::unique_ptr<DevicePluginService> service, std::unique_ptr<SocketServer> server)
      : service_(std::move(service)), server_(std::move(server)) {}

  std::unique_ptr<DevicePluginService> service_;
  std::unique_ptr<SocketServer> server_;  // goes first
};

}  // namespace tranche::host
