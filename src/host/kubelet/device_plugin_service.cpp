#include "host/kubelet/device_plugin_service.h"

#include <vector>

#include "host/kubelet/translate.h"

namespace tranche::host {
namespace {

grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status ? grpc::Status::OK : to_status(status.error()));
  return reactor;
}

template <class Repeated>
std::vector<std::string> strings(const Repeated& repeated) {
  return {repeated.begin(), repeated.end()};
}

}  // namespace

grpc::ServerUnaryReactor* DevicePluginService::GetDevicePluginOptions(grpc::CallbackServerContext* context,
                                                                      const v1beta1::Empty*,
                                                                      v1beta1::DevicePluginOptions* response) {
  *response = our_options();
  return answer(context, {});
}

grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* DevicePluginService::ListAndWatch(
    grpc::CallbackServerContext* context, const v1beta1::Empty*) {
  return streams_.open(*context);
}

Status DevicePluginService::prefer_all(const v1beta1::PreferredAllocationRequest& request,
                                       v1beta1::PreferredAllocationResponse& response) {
  for (const v1beta1::ContainerPreferredAllocationRequest& ask : request.container_requests()) {
    if (ask.allocation_size() < 0) {
      return fail(Kind::kInvalid, "a preferred allocation cannot have a negative size", resource_);
    }
    TRY(const std::vector<std::string> ids,
        answers_.prefer(resource_, strings(ask.available_deviceids()), strings(ask.must_include_deviceids()),
                        static_cast<std::uint32_t>(ask.allocation_size())));
    v1beta1::ContainerPreferredAllocationResponse& container = *response.add_container_responses();
    for (const std::string& id : ids) container.add_deviceids(id);
  }
  return {};
}

grpc::ServerUnaryReactor* DevicePluginService::GetPreferredAllocation(
    grpc::CallbackServerContext* context, const v1beta1::PreferredAllocationRequest* request,
    v1beta1::PreferredAllocationResponse* response) {
  return answer(context, prefer_all(*request, *response));
}

Status DevicePluginService::allocate_all(const v1beta1::AllocateRequest& request, v1beta1::AllocateResponse& response) {
  for (const v1beta1::ContainerAllocateRequest& ask : request.container_requests()) {
    TRY(const allocate::Grant grant, answers_.allocate(resource_, strings(ask.devices_ids())));
    write_grant(grant, *response.add_container_responses());
  }
  return {};
}

grpc::ServerUnaryReactor* DevicePluginService::Allocate(grpc::CallbackServerContext* context,
                                                        const v1beta1::AllocateRequest* request,
                                                        v1beta1::AllocateResponse* response) {
  const Status done = allocate_all(*request, *response);
  if (done) {
    counts_.allocations += static_cast<std::uint64_t>(request->container_requests_size());
  } else {
    ++counts_.refused;
  }
  on_change_();
  return answer(context, done);
}

grpc::ServerUnaryReactor* DevicePluginService::PreStartContainer(grpc::CallbackServerContext* context,
                                                                 const v1beta1::PreStartContainerRequest*,
                                                                 v1beta1::PreStartContainerResponse*) {
  return answer(context, {});
}

}  // namespace tranche::host
