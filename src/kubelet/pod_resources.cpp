#include "kubelet/pod_resources.h"

#include <deviceplugin/v1beta1/api.grpc.pb.h>
#include <grpcpp/client_context.h>
#include <podresources/v1/api.grpc.pb.h>

#include "kubelet/socket_server.h"
#include "kubelet/translate.h"

namespace tranche::kubelet {

Result<std::vector<grants::Held>> list_pod_resources(const std::string& socket_path, Duration deadline) {
  const auto stub = v1::PodResourcesLister::NewStub(local_channel(socket_path));
  grpc::ClientContext context;
  context.set_deadline(grpc_span(deadline));
  v1::ListPodResourcesResponse response;
  const grpc::Status status = stub->List(&context, {}, &response);
  if (!status.ok())
    return std::unexpected(from_status(status, "kubelet does not report which pods hold what", socket_path));
  return to_holdings(response);
}

Result<grants::Grant> request_grant(const std::string& plugin_socket, const std::vector<std::string>& slots,
                                    Duration deadline) {
  const auto stub = v1beta1::DevicePlugin::NewStub(local_channel(plugin_socket));
  grpc::ClientContext context;
  context.set_deadline(grpc_span(deadline));
  v1beta1::AllocateRequest request;
  auto* container = request.add_container_requests();
  for (const auto& slot : slots) container->add_devices_ids(slot);
  v1beta1::AllocateResponse response;
  const grpc::Status status = stub->Allocate(&context, request, &response);
  if (!status.ok())
    return std::unexpected(from_status(status, "the device plugin does not grant slots", plugin_socket));
  if (response.container_responses_size() != 1)
    return fail(Kind::kInvalid, "the device plugin answered for another number of containers than it was asked for",
                plugin_socket);
  grants::Grant grant;
  const auto& answer = response.container_responses(0);
  for (const auto& [name, value] : answer.envs()) grant.envs[name] = value;
  for (const auto& mount : answer.mounts()) grant.mounts.push_back({mount.container_path(), mount.host_path()});
  return grant;
}

}  // namespace tranche::kubelet
