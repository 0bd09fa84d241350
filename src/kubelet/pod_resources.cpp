#include "kubelet/pod_resources.h"

#include <grpcpp/client_context.h>
#include <podresources/v1/api.grpc.pb.h>

#include "kubelet/local_channel.h"
#include "kubelet/translate.h"

namespace tranche::host {

Result<std::vector<PodHolding>> list_pod_resources(const std::string& socket_path, Duration deadline) {
  const auto stub = v1::PodResourcesLister::NewStub(local_channel(socket_path));
  grpc::ClientContext context;
  context.set_deadline(grpc_span(deadline));
  v1::ListPodResourcesResponse response;
  const grpc::Status status = stub->List(&context, {}, &response);
  if (!status.ok())
    return std::unexpected(from_status(status, "kubelet does not report which pods hold what", socket_path));
  return to_holdings(response);
}

}  // namespace tranche::host
