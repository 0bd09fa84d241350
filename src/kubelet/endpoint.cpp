#include "kubelet/endpoint.h"

#include <utility>

namespace tranche::host {

Result<std::unique_ptr<Endpoint>> Endpoint::open(std::unique_ptr<DevicePluginService> service, std::string path,
                                                 const std::string& temporary_name, Duration stop_within) {
  TRY(auto server, SocketServer::open({service.get()}, std::move(path), temporary_name, stop_within));
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(service), std::move(server)));
}

Endpoint::~Endpoint() {
  // Finished streams first: an open one would keep the server waiting until its deadline.
  service_->streams().close();
}

}  // namespace tranche::host
