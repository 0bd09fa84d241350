#pragma once
// kubelet's questions about one resource, answered right on gRPC's threads: no lock of ours is held while Answers
// thinks and the loop is not involved, so kubelet's re-entrant Register cannot wait for itself and a busy loop delays
// no pod. Methods in PascalCase are kubelet calling us.
#include <deviceplugin/v1beta1/api.grpc.pb.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "kubelet/plugin_host.h"
#include "kubelet/streams.h"

namespace tranche::host {

struct CallCounts {
  std::atomic<std::uint64_t> allocations = 0;  // containers that received a grant
  std::atomic<std::uint64_t> refused = 0;      // Allocate calls that did not
};

// Of one resource: what ListAndWatch sends.
using WatchStreams = Streams<v1beta1::ListAndWatchResponse>;
using DeviceList = WatchStreams::Newest;

class DevicePluginService final : public v1beta1::DevicePlugin::CallbackService {
 public:
  // on_streams, on_counts: on gRPC's threads, after streams came or went, after calls were counted. All references must
  // outlive the server.
  DevicePluginService(std::string resource, Answers& answers, CallCounts& counts, std::function<void()> on_streams,
                      std::function<void()> on_counts)
      : resource_(std::move(resource)),
        answers_(answers),
        counts_(counts),
        on_counts_(std::move(on_counts)),
        streams_(std::move(on_streams)) {}

  WatchStreams& streams() { return streams_; }

  grpc::ServerUnaryReactor* GetDevicePluginOptions(grpc::CallbackServerContext* context, const v1beta1::Empty* request,
                                                   v1beta1::DevicePluginOptions* response) override;
  grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* ListAndWatch(grpc::CallbackServerContext* context,
                                                                        const v1beta1::Empty* request) override;
  grpc::ServerUnaryReactor* GetPreferredAllocation(grpc::CallbackServerContext* context,
                                                   const v1beta1::PreferredAllocationRequest* request,
                                                   v1beta1::PreferredAllocationResponse* response) override;
  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context, const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* response) override;
  grpc::ServerUnaryReactor* PreStartContainer(grpc::CallbackServerContext* context,
                                              const v1beta1::PreStartContainerRequest* request,
                                              v1beta1::PreStartContainerResponse* response) override;

 private:
  Status prefer_all(const v1beta1::PreferredAllocationRequest& request, v1beta1::PreferredAllocationResponse& response);
  Status allocate_all(const v1beta1::AllocateRequest& request, v1beta1::AllocateResponse& response);

  const std::string resource_;
  Answers& answers_;
  CallCounts& counts_;
  const std::function<void()> on_counts_;
  WatchStreams streams_;
};

}  // namespace tranche::host
