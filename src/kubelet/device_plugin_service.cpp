#include "kubelet/device_plugin_service.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "kubelet/translate.h"

namespace tranche::host {
namespace {

grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status ? grpc::Status::OK : to_status(status.error()));
  return reactor;
}

template <class As, class Repeated>
std::vector<As> all_of(const Repeated& repeated) {
  return {repeated.begin(), repeated.end()};
}

// kubelet asks for one container at a time. An error for several containers names the index (they have no names here).
Error in_container(Error error, int index, int count) {
  return count == 1 ? std::move(error) : within(std::move(error), fmt::format("container {} of {}", index + 1, count));
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
  const int count = request.container_requests_size();
  for (int i = 0; i < count; ++i) {
    const v1beta1::ContainerPreferredAllocationRequest& ask = request.container_requests(i);
    if (ask.allocation_size() < 0) {
      return fail(Kind::kInvalid, "a preferred allocation cannot have a negative size", resource_);
    }
    auto ids = answers_.prefer(resource_, all_of<std::string_view>(ask.available_deviceids()),
                               all_of<std::string_view>(ask.must_include_deviceids()),
                               static_cast<std::uint32_t>(ask.allocation_size()));
    if (!ids) return std::unexpected(in_container(std::move(ids).error(), i, count));
    v1beta1::ContainerPreferredAllocationResponse& container = *response.add_container_responses();
    for (std::string& id : *ids) container.add_deviceids(std::move(id));
  }
  return {};
}

grpc::ServerUnaryReactor* DevicePluginService::GetPreferredAllocation(
    grpc::CallbackServerContext* context, const v1beta1::PreferredAllocationRequest* request,
    v1beta1::PreferredAllocationResponse* response) {
  return answer(context, prefer_all(*request, *response));
}

Status DevicePluginService::allocate_all(const v1beta1::AllocateRequest& request, v1beta1::AllocateResponse& response) {
  const int count = request.container_requests_size();
  for (int i = 0; i < count; ++i) {
    const auto grant = answers_.allocate(resource_, all_of<std::string>(request.container_requests(i).devices_ids()));
    if (!grant) return std::unexpected(in_container(grant.error(), i, count));
    write_grant(*grant, *response.add_container_responses());
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
  on_counts_();
  return answer(context, done);
}

grpc::ServerUnaryReactor* DevicePluginService::PreStartContainer(grpc::CallbackServerContext* context,
                                                                 const v1beta1::PreStartContainerRequest*,
                                                                 v1beta1::PreStartContainerResponse*) {
  return answer(context, {});
}

}  // namespace tranche::host
