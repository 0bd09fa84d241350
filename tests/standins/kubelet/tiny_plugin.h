#pragma once
// A minimal device plugin to test the kubelet stand-in with configurable responses. Independent of the product.
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "deviceplugin/v1beta1/api.grpc.pb.h"

namespace tranche::sim {

struct TinyDevice {
  std::string id;
  bool healthy = true;
};

class TinyPlugin final : public v1beta1::DevicePlugin::Service {
 public:
  TinyPlugin(std::string dir, std::string endpoint) : dir_(std::move(dir)), endpoint_(std::move(endpoint)) {}
  ~TinyPlugin() override { stop(); }

  // Its responses; set before serving, or between calls.
  bool offers_preference = false;
  std::function<std::vector<std::string>(std::vector<std::string> available, int size)> preference;
  std::function<grpc::Status(const std::vector<std::string>& ids, v1beta1::ContainerAllocateResponse*)> allocation;

  void serve();
  void stop();  // ends its streams, then the server; removes its socket
  // Registers from the calling thread while gRPC's threads answer kubelet's call.
  grpc::Status register_as(const std::string& resource, const std::string& version = "v1beta1");
  grpc::Status register_endpoint(const std::string& resource, const std::string& version, const std::string& endpoint);
  void set_devices(std::vector<TinyDevice> devices);  // sent to every open stream

  grpc::Status GetDevicePluginOptions(grpc::ServerContext*, const v1beta1::Empty*,
                                      v1beta1::DevicePluginOptions*) override;
  grpc::Status ListAndWatch(grpc::ServerContext*, const v1beta1::Empty*,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>*) override;
  grpc::Status GetPreferredAllocation(grpc::ServerContext*, const v1beta1::PreferredAllocationRequest*,
                                      v1beta1::PreferredAllocationResponse*) override;
  grpc::Status Allocate(grpc::ServerContext*, const v1beta1::AllocateRequest*, v1beta1::AllocateResponse*) override;

 private:
  std::string dir_;
  std::string endpoint_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TinyDevice> devices_;
  std::uint64_t version_ = 1;
  bool stopping_ = false;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tranche::sim
