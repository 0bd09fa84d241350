#pragma once
// Private to plugin_host.cpp: the two directions of kubelet's device plugin API for one resource. kubelet asks the
// service; RegisterCall makes the service known to kubelet.
//
// Thread: each class names the threads of its functions. Callbacks: on gRPC's threads.
#include <deviceplugin/v1beta1/api.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "kubelet/plugin_host.h"
#include "kubelet/socket_server.h"
#include "kubelet/streams.h"
#include "kubelet/translate.h"

namespace tranche::kubelet {

struct CallCounts {
  std::atomic<std::uint64_t> allocations = 0;  // containers that received a grant
  std::atomic<std::uint64_t> refused = 0;      // Allocate calls that did not
};

// kubelet's questions about one resource, answered right on gRPC's threads: no lock of ours is held while Answers
// thinks and the loop is not involved, so kubelet's re-entrant Register cannot wait for itself and a busy loop delays
// no pod. Methods in PascalCase are kubelet calling us.
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

  // Of one resource: what ListAndWatch sends.
  Streams<v1beta1::ListAndWatchResponse>& streams() { return streams_; }

  grpc::ServerUnaryReactor* GetDevicePluginOptions(grpc::CallbackServerContext* context, const v1beta1::Empty*,
                                                   v1beta1::DevicePluginOptions* response) override {
    *response = our_options();
    return answer(context, {});
  }

  grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* ListAndWatch(grpc::CallbackServerContext* context,
                                                                        const v1beta1::Empty*) override {
    return streams_.open(*context);
  }

  grpc::ServerUnaryReactor* GetPreferredAllocation(grpc::CallbackServerContext* context,
                                                   const v1beta1::PreferredAllocationRequest* request,
                                                   v1beta1::PreferredAllocationResponse* response) override {
    return answer(context, prefer_all(*request, *response));
  }

  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context, const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* response) override {
    const Status done = allocate_all(*request, *response);
    if (done) {
      counts_.allocations += static_cast<std::uint64_t>(request->container_requests_size());
    } else {
      ++counts_.refused;
    }
    on_counts_();
    return answer(context, done);
  }

  grpc::ServerUnaryReactor* PreStartContainer(grpc::CallbackServerContext* context,
                                              const v1beta1::PreStartContainerRequest*,
                                              v1beta1::PreStartContainerResponse*) override {
    return answer(context, {});
  }

 private:
  static grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const Status& status) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(status ? grpc::Status::OK : to_status(status.error()));
    return reactor;
  }

  template <class As, class Repeated>
  static std::vector<As> all_of(const Repeated& repeated) {
    return {repeated.begin(), repeated.end()};
  }

  // kubelet asks for one container at a time. An error for several containers names the index (they have no names
  // here).
  static Error in_container(Error error, int index, int count) {
    return count == 1 ? std::move(error)
                      : within(std::move(error), fmt::format("container {} of {}", index + 1, count));
  }

  Status prefer_all(const v1beta1::PreferredAllocationRequest& request,
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

  Status allocate_all(const v1beta1::AllocateRequest& request, v1beta1::AllocateResponse& response) {
    const int count = request.container_requests_size();
    for (int i = 0; i < count; ++i) {
      const auto grant = answers_.allocate(resource_, all_of<std::string>(request.container_requests(i).devices_ids()));
      if (!grant) return std::unexpected(in_container(grant.error(), i, count));
      write_grant(*grant, *response.add_container_responses());
    }
    return {};
  }

  const std::string resource_;
  Answers& answers_;
  CallCounts& counts_;
  const std::function<void()> on_counts_;
  Streams<v1beta1::ListAndWatchResponse> streams_;
};

// One asynchronous Register call to kubelet. Never made from a thread that has to answer kubelet: before Register
// returns, kubelet dials our endpoint and asks GetDevicePluginOptions (docs/internals/kubelet-contract.md).
class RegisterCall {
 public:
  // on_done: on a gRPC thread, once, after which outcome() has a value.
  RegisterCall(const std::string& kubelet_socket, const std::string& resource, const std::string& endpoint,
               Duration deadline, std::function<void()> on_done)
      : socket_(kubelet_socket),
        on_done_(std::move(on_done)),
        stub_(v1beta1::Registration::NewStub(local_channel(kubelet_socket))) {
    request_.set_version("v1beta1");
    request_.set_endpoint(endpoint);
    request_.set_resource_name(resource);
    *request_.mutable_options() = our_options();
    context_.set_deadline(grpc_span(deadline));
    stub_->async()->Register(&context_, &request_, &response_, [this](const grpc::Status& status) { finish(status); });
  }
  // Cancels, and waits the moment until on_done has returned.
  ~RegisterCall() {
    context_.TryCancel();
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [this] { return over_; });
  }
  RegisterCall(const RegisterCall&) = delete;
  RegisterCall& operator=(const RegisterCall&) = delete;

  // Nothing while under way; any thread.
  std::optional<Status> outcome() const {
    const std::lock_guard lock(mutex_);
    return outcome_;
  }

 private:
  Status judge(const grpc::Status& status) const {
    if (status.ok()) return {};
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
        return std::unexpected(from_status(status, "kubelet does not answer", socket_));
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return std::unexpected(
            from_status(status, "kubelet received the registration and did not answer in time", socket_));
      default:
        return std::unexpected(
            from_status(status, fmt::format("kubelet refused to register {}", request_.resource_name()), socket_));
    }
  }

  void finish(const grpc::Status& status) {
    {
      const std::lock_guard lock(mutex_);
      outcome_ = judge(status);
    }
    on_done_();
    // Under the lock: the destructor may free everything as soon as it sees `over_`.
    const std::lock_guard lock(mutex_);
    over_ = true;
    returned_.notify_all();
  }

  const std::string socket_;
  const std::function<void()> on_done_;
  const std::unique_ptr<v1beta1::Registration::Stub> stub_;
  grpc::ClientContext context_;
  v1beta1::RegisterRequest request_;
  v1beta1::Empty response_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::optional<Status> outcome_;
  bool over_ = false;
};

}  // namespace tranche::kubelet
