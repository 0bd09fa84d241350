#pragma once
// Asks a plugin's socket what a kubelet would not: unknown ids, several containers in one call, while others hold the
// same resource. A thin client on a connection of its own. Every call has a deadline of a minute.
#include <deviceplugin/v1beta1/api.grpc.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/create_channel.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tranche::contract {

using Ids = std::vector<std::string>;

// Byte for byte comparable: protobuf's maps have no order of their own.
inline std::string in_fixed_order(const v1beta1::AllocateResponse& response) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  response.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

class DirectClient {
 public:
  // authority "" = what gRPC sends by itself, "localhost".
  explicit DirectClient(const std::string& socket, const std::string& authority = {}) : authority_(authority) {
    stub_ = v1beta1::DevicePlugin::NewStub(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
  }

  grpc::Status allocate(const std::vector<Ids>& containers, v1beta1::AllocateResponse& response) {
    v1beta1::AllocateRequest request;
    for (const Ids& ids : containers)
      request.add_container_requests()->mutable_devices_ids()->Assign(ids.begin(), ids.end());
    return call([&](grpc::ClientContext* context) { return stub_->Allocate(context, request, &response); });
  }
  grpc::Status allocate(const Ids& ids) {
    v1beta1::AllocateResponse ignored;
    return allocate({ids}, ignored);
  }
  grpc::Status prefer(const Ids& available, const Ids& must_include, int size, Ids& chosen) {
    v1beta1::PreferredAllocationRequest request;
    auto& ask = *request.add_container_requests();
    ask.mutable_available_deviceids()->Assign(available.begin(), available.end());
    ask.mutable_must_include_deviceids()->Assign(must_include.begin(), must_include.end());
    ask.set_allocation_size(size);
    v1beta1::PreferredAllocationResponse response;
    const grpc::Status status =
        call([&](grpc::ClientContext* context) { return stub_->GetPreferredAllocation(context, request, &response); });
    if (response.container_responses_size() == 1) {
      const auto& ids = response.container_responses(0).deviceids();
      chosen.assign(ids.begin(), ids.end());
    }
    return status;
  }
  grpc::Status prefer(const v1beta1::PreferredAllocationRequest& request,
                      v1beta1::PreferredAllocationResponse& response) {
    return call(
        [&](grpc::ClientContext* context) { return stub_->GetPreferredAllocation(context, request, &response); });
  }
  grpc::Status pre_start(const Ids& ids) {
    v1beta1::PreStartContainerRequest request;
    request.mutable_devices_ids()->Assign(ids.begin(), ids.end());
    v1beta1::PreStartContainerResponse response;
    return call([&](grpc::ClientContext* context) { return stub_->PreStartContainer(context, request, &response); });
  }
  grpc::Status options(v1beta1::DevicePluginOptions& response) {
    return call([&](grpc::ClientContext* context) { return stub_->GetDevicePluginOptions(context, {}, &response); });
  }

 private:
  template <class F>
  grpc::Status call(F&& ask) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    context.set_wait_for_ready(true);
    if (!authority_.empty()) context.set_authority(authority_);
    return ask(&context);
  }

  std::string authority_;
  std::unique_ptr<v1beta1::DevicePlugin::Stub> stub_;
};

}  // namespace tranche::contract
