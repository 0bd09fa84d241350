#include "kubelet/register_call.h"

#include <deviceplugin/v1beta1/api.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "kubelet/local_channel.h"
#include "kubelet/translate.h"

namespace tranche::host {

struct RegisterCall::Call {
  std::string socket;
  std::function<void()> on_done;
  std::unique_ptr<v1beta1::Registration::Stub> stub;
  grpc::ClientContext context;
  v1beta1::RegisterRequest request;
  v1beta1::Empty response;

  mutable std::mutex mutex;
  std::condition_variable returned;
  std::optional<Status> outcome;
  bool over = false;

  Status judge(const grpc::Status& status) const {
    if (status.ok()) return {};
    switch (status.error_code()) {
      case grpc::StatusCode::UNAVAILABLE:
        return std::unexpected(from_status(status, "kubelet does not answer", socket));
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return std::unexpected(from_status(status, "kubelet took the registration and did not answer in time", socket));
      default:
        return std::unexpected(
            from_status(status, fmt::format("kubelet refused to register {}", request.resource_name()), socket));
    }
  }

  void finished(const grpc::Status& status) {
    {
      const std::lock_guard lock(mutex);
      outcome = judge(status);
    }
    on_done();
    // Under the lock: the destructor may free everything as soon as it sees `over`.
    const std::lock_guard lock(mutex);
    over = true;
    returned.notify_all();
  }
};

RegisterCall::RegisterCall(std::unique_ptr<Call> call) : call_(std::move(call)) {}

std::unique_ptr<RegisterCall> RegisterCall::start(const std::string& kubelet_socket, const std::string& resource,
                                                  const std::string& endpoint, Duration deadline,
                                                  std::function<void()> on_done) {
  auto call = std::make_unique<Call>();
  call->socket = kubelet_socket;
  call->on_done = std::move(on_done);
  call->stub = v1beta1::Registration::NewStub(local_channel(kubelet_socket));
  call->request.set_version("v1beta1");
  call->request.set_endpoint(endpoint);
  call->request.set_resource_name(resource);
  *call->request.mutable_options() = our_options();
  call->context.set_deadline(grpc_span(deadline));
  Call* const raw = call.get();
  std::unique_ptr<RegisterCall> result(new RegisterCall(std::move(call)));
  raw->stub->async()->Register(&raw->context, &raw->request, &raw->response,
                               [raw](const grpc::Status& status) { raw->finished(status); });
  return result;
}

RegisterCall::~RegisterCall() {
  call_->context.TryCancel();
  std::unique_lock lock(call_->mutex);
  call_->returned.wait(lock, [this] { return call_->over; });
}

std::optional<Status> RegisterCall::outcome() const {
  const std::lock_guard lock(call_->mutex);
  return call_->outcome;
}

}  // namespace tranche::host
