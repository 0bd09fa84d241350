#include "standins/kubelet/dra_kubelet.h"

#include <dra/v1/api.grpc.pb.h>
#include <dra_health/v1alpha1/api.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <pluginregistration/v1/api.grpc.pb.h>

#include <algorithm>

namespace tranche::sim {
namespace {

namespace v1 = k8s::io::kubelet::pkg::apis::dra::v1;

constexpr auto kDeadline = std::chrono::seconds(45);  // kubelet's

std::shared_ptr<grpc::Channel> channel_to(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

void set_deadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
}

std::unexpected<Error> failed(const grpc::Status& status, const std::string& what) {
  return fail(Kind::kUnavailable, what + ": " + status.error_message(), "", static_cast<int>(status.error_code()));
}

template <class Request>
Request request_for(const std::vector<DraClaimRef>& claims) {
  Request request;
  for (const auto& each : claims) {
    auto& claim = *request.add_claims();
    claim.set_namespace_(each.claim_namespace);
    claim.set_name(each.name);
    claim.set_uid(each.uid);
  }
  return request;
}

class Client final : public DraKubelet {
 public:
  Client(std::string driver, std::string endpoint, std::unique_ptr<v1::DRAPlugin::Stub> stub)
      : driver_(std::move(driver)), endpoint_(std::move(endpoint)), stub_(std::move(stub)) {}

  const std::string& driver() const override { return driver_; }
  const std::string& endpoint() const override { return endpoint_; }

  Result<std::map<std::string, DraPrepared>> prepare(const std::vector<DraClaimRef>& claims) override {
    grpc::ClientContext context;
    set_deadline(context);
    v1::NodePrepareResourcesResponse response;
    const auto status =
        stub_->NodePrepareResources(&context, request_for<v1::NodePrepareResourcesRequest>(claims), &response);
    if (!status.ok()) return failed(status, "NodePrepareResources");
    std::map<std::string, DraPrepared> prepared;
    for (const auto& [uid, claim] : response.claims()) {
      DraPrepared& into = prepared[uid];
      into.error = claim.error();
      for (const auto& device : claim.devices()) {
        into.devices.push_back({{device.request_names().begin(), device.request_names().end()},
                                device.pool_name(),
                                device.device_name(),
                                device.share_id(),
                                {device.cdi_device_ids().begin(), device.cdi_device_ids().end()}});
      }
    }
    return prepared;
  }

  Result<std::map<std::string, std::string>> unprepare(const std::vector<DraClaimRef>& claims) override {
    grpc::ClientContext context;
    set_deadline(context);
    v1::NodeUnprepareResourcesResponse response;
    const auto status =
        stub_->NodeUnprepareResources(&context, request_for<v1::NodeUnprepareResourcesRequest>(claims), &response);
    if (!status.ok()) return failed(status, "NodeUnprepareResources");
    std::map<std::string, std::string> errors;
    for (const auto& [uid, claim] : response.claims()) errors[uid] = claim.error();
    return errors;
  }

  Result<std::map<std::string, std::string>> health() override {
    const auto stub = v1alpha1::DRAResourceHealth::NewStub(channel_to(endpoint_));
    grpc::ClientContext context;
    set_deadline(context);
    const auto stream = stub->NodeWatchResources(&context, {});
    v1alpha1::NodeWatchResourcesResponse message;
    if (!stream->Read(&message)) return failed(stream->Finish(), "NodeWatchResources");
    context.TryCancel();
    std::map<std::string, std::string> all;
    for (const auto& device : message.devices())
      all[device.device().pool_name() + "/" + device.device().device_name()] =
          device.health() == v1alpha1::HEALTHY ? "HEALTHY" : "not: " + device.message();
    return all;
  }

 private:
  std::string driver_, endpoint_;
  std::unique_ptr<v1::DRAPlugin::Stub> stub_;
};

}  // namespace

Result<std::unique_ptr<DraKubelet>> DraKubelet::register_driver(const std::string& registry_socket) {
  const auto registration = pluginregistration::Registration::NewStub(channel_to(registry_socket));
  pluginregistration::PluginInfo info;
  {
    grpc::ClientContext context;
    set_deadline(context);
    const auto status = registration->GetInfo(&context, {}, &info);
    if (!status.ok()) return failed(status, "GetInfo");
  }
  const auto& versions = info.supported_versions();
  const std::string endpoint = info.endpoint().empty() ? registry_socket : info.endpoint();
  const bool good = info.type() == "DRAPlugin" && endpoint.starts_with('/') && !info.name().empty() &&
                    std::ranges::find(versions, "v1.DRAPlugin") != versions.end();
  {
    grpc::ClientContext context;
    set_deadline(context);
    pluginregistration::RegistrationStatus message;
    message.set_plugin_registered(good);
    if (!good) message.set_error("no version that kubelet knows");
    pluginregistration::RegistrationStatusResponse response;
    const auto status = registration->NotifyRegistrationStatus(&context, message, &response);
    if (!status.ok()) return failed(status, "NotifyRegistrationStatus");
  }
  if (!good) return fail(Kind::kInvalid, "kubelet would not register " + info.name());
  return std::make_unique<Client>(info.name(), endpoint, v1::DRAPlugin::NewStub(channel_to(endpoint)));
}

}  // namespace tranche::sim
