#include "standins/kubelet/tiny_plugin.h"

#include <chrono>

#include "base/result.h"

namespace tranche::sim {

void TinyPlugin::serve() {
  stopping_ = false;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + dir_ + "/" + endpoint_, grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  // A thread of gRPC's synchronous server may sleep this long before it notices a shutdown; the default is 10 s.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::CQ_TIMEOUT_MSEC, 100);
  server_ = builder.BuildAndStart();
  CHECK_THAT(server_ != nullptr, "the test's plugin cannot listen");
}

void TinyPlugin::stop() {
  if (!server_) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  server_.reset();
}

grpc::Status TinyPlugin::register_as(const std::string& resource, const std::string& version) {
  return register_endpoint(resource, version, endpoint_);
}

grpc::Status TinyPlugin::register_endpoint(const std::string& resource, const std::string& version,
                                           const std::string& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);  // kubelet.sock exists a moment before it listens
  const auto channel =
      grpc::CreateCustomChannel("unix:" + dir_ + "/kubelet.sock", grpc::InsecureChannelCredentials(), arguments);
  v1beta1::RegisterRequest request;
  request.set_version(version);
  request.set_endpoint(endpoint);
  request.set_resource_name(resource);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  context.set_wait_for_ready(true);
  v1beta1::Empty answer;
  return v1beta1::Registration::NewStub(channel)->Register(&context, request, &answer);
}

void TinyPlugin::set_devices(std::vector<TinyDevice> devices) {
  const std::lock_guard lock(mutex_);
  devices_ = std::move(devices);
  ++version_;
  changed_.notify_all();
}

grpc::Status TinyPlugin::GetDevicePluginOptions(grpc::ServerContext*, const v1beta1::Empty*,
                                                v1beta1::DevicePluginOptions* answer) {
  answer->set_get_preferred_allocation_available(offers_preference);
  return grpc::Status::OK;
}

grpc::Status TinyPlugin::ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty*,
                                      grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) {
  std::unique_lock lock(mutex_);
  std::uint64_t sent = 0;
  while (true) {
    // The short waits notice a cancelled stream, which the synchronous API does not signal.
    changed_.wait_for(lock, std::chrono::milliseconds(20), [&] { return stopping_ || sent != version_; });
    if (stopping_ || context->IsCancelled()) break;
    if (sent == version_) continue;
    sent = version_;
    v1beta1::ListAndWatchResponse message;
    for (const TinyDevice& device : devices_) {
      auto& listed = *message.add_devices();
      listed.set_id(device.id);
      listed.set_health(device.healthy ? "Healthy" : "Unhealthy");
    }
    lock.unlock();
    const bool written = writer->Write(message);
    lock.lock();
    if (!written) break;
  }
  return grpc::Status::OK;
}

grpc::Status TinyPlugin::GetPreferredAllocation(grpc::ServerContext*,
                                                const v1beta1::PreferredAllocationRequest* request,
                                                v1beta1::PreferredAllocationResponse* answer) {
  if (!preference) return {grpc::StatusCode::UNIMPLEMENTED, "no preference"};
  for (const auto& container : request->container_requests()) {
    const std::vector<std::string> available(container.available_deviceids().begin(),
                                             container.available_deviceids().end());
    const auto ids = preference(available, container.allocation_size());
    answer->add_container_responses()->mutable_deviceids()->Assign(ids.begin(), ids.end());
  }
  return grpc::Status::OK;
}

grpc::Status TinyPlugin::Allocate(grpc::ServerContext*, const v1beta1::AllocateRequest* request,
                                  v1beta1::AllocateResponse* answer) {
  for (const auto& container : request->container_requests()) {
    const std::vector<std::string> ids(container.devices_ids().begin(), container.devices_ids().end());
    auto& response = *answer->add_container_responses();
    if (allocation) {
      if (const grpc::Status status = allocation(ids, &response); !status.ok()) return status;
    }
  }
  return grpc::Status::OK;
}

}  // namespace tranche::sim
