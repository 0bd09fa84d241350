#include "standins/kubelet/plugin_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace tranche::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

std::shared_ptr<grpc::Channel> open_channel(const std::string& path, const std::string& authority) {
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, authority == "path" ? path : authority);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // each client has its own connection, as in kubelet
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);            // Go's fixed window of 64 KiB: slow readers push back early
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetMaxReceiveMessageSize(4 << 20);  // Go's default, which kubelet leaves
  return grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

PluginClient::PluginClient(std::string resource, std::string path, const std::string& authority)
    : resource_(std::move(resource)),
      path_(std::move(path)),
      channel_(open_channel(path_, authority)),
      stub_(v1beta1::DevicePlugin::NewStub(channel_)) {}

std::string PluginClient::endpoint() const {
  return path_.substr(path_.rfind('/') + 1);
}

Status PluginClient::connect(Duration within) {
  // In short waits, so that cancel() is noticed: gRPC cannot end this wait from outside.
  const auto deadline = system_clock::now() + std::chrono::duration_cast<system_clock::duration>(within);
  while (!channel_->WaitForConnected(std::min(deadline, system_clock::now() + milliseconds(100)))) {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return fail(Kind::kUnavailable, "kubelet is stopping", path_);
    if (system_clock::now() >= deadline) {
      return fail(Kind::kTimeout, "failed to dial device plugin: nobody answered before the deadline", path_);
    }
  }
  return {};
}

template <class Ask>
grpc::Status PluginClient::call(Ask ask) {
  grpc::ClientContext context;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return {grpc::StatusCode::CANCELLED, "the connection to the plugin is closed"};
    under_way_.insert(&context);
  }
  const grpc::Status status = ask(context);
  const std::lock_guard lock(mutex_);
  under_way_.erase(&context);
  return status;
}

grpc::Status PluginClient::options(v1beta1::DevicePluginOptions* answer) {
  return call([&](auto& context) { return stub_->GetDevicePluginOptions(&context, {}, answer); });
}

grpc::Status PluginClient::preferred(const v1beta1::PreferredAllocationRequest& request,
                                     v1beta1::PreferredAllocationResponse* answer) {
  return call([&](auto& context) { return stub_->GetPreferredAllocation(&context, request, answer); });
}

grpc::Status PluginClient::allocate(std::span<const std::string> ids, v1beta1::AllocateResponse* answer) {
  v1beta1::AllocateRequest request;
  request.add_container_requests()->mutable_devices_ids()->Assign(ids.begin(), ids.end());
  return call([&](auto& context) { return stub_->Allocate(&context, request, answer); });
}

void PluginClient::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : under_way_) context->TryCancel();
}

std::string go_status_text(const grpc::Status& status) {
  static constexpr std::array<const char*, 17> kNames = {
      "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
      "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
      "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
      "DataLoss", "Unauthenticated"};
  const auto code = static_cast<std::size_t>(status.error_code());
  return fmt::format("rpc error: code = {} desc = {}", code < kNames.size() ? kNames[code] : "Unknown",
                     status.error_message());
}

}  // namespace tranche::sim
