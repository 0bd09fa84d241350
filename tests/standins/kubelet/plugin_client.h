#pragma once
// kubelet's side of the connection to one registered endpoint: the dial and the unary calls. The owner runs the
// stream on `stub()`. cancel() ends every call from another thread.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "deviceplugin/v1beta1/api.grpc.pb.h"

namespace tranche::sim {

class PluginClient {
 public:
  // authority "path" = the path itself, as kubelets before kubernetes/kubernetes#112597 sent.
  PluginClient(std::string resource, std::string path, const std::string& authority);

  // Blocks until connected, as kubelet's dial does.
  Status connect(Duration within);
  grpc::Status options(v1beta1::DevicePluginOptions* answer);
  grpc::Status preferred(const v1beta1::PreferredAllocationRequest& request,
                         v1beta1::PreferredAllocationResponse* answer);
  grpc::Status allocate(std::span<const std::string> ids, v1beta1::AllocateResponse* answer);

  void cancel();  // ends calls in progress, and every later one immediately
  v1beta1::DevicePlugin::Stub& stub() { return *stub_; }
  const std::string& resource() const { return resource_; }
  const std::string& path() const { return path_; }
  std::string endpoint() const;  // the file name

 private:
  template <class Ask>
  grpc::Status call(Ask ask);

  std::string resource_;
  std::string path_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1beta1::DevicePlugin::Stub> stub_;
  std::mutex mutex_;
  std::set<grpc::ClientContext*> under_way_;
  bool cancelled_ = false;
};

// "rpc error: code = Unavailable desc = …": the format of a failed call in kubelet, a Go program.
std::string go_status_text(const grpc::Status& status);

}  // namespace tranche::sim
