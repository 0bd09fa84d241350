#pragma once
// kubelet's calls about claims, on their way from gRPC's threads to the loop and back; v1 and v1beta1 by one template,
// for the messages are the same but for the share's id. Methods in PascalCase are kubelet calling us.
#include <dra/v1/api.grpc.pb.h>
#include <dra/v1beta1/api.grpc.pb.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kubelet/dra_server.h"

namespace tranche::host {

// Calls that are not answered yet: each is finished once, by its answer or by close(). Any thread.
class OpenCalls {
 public:
  std::uint64_t enter(grpc::ServerUnaryReactor* reactor);  // 0: closed, and the call is finished
  // `write` fills the response, which exists until the call is finished; not called for one that is finished.
  void finish(std::uint64_t call, const std::function<void()>& write);
  void close();

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, grpc::ServerUnaryReactor*> calls_;
  std::uint64_t last_ = 0;
  bool closed_ = false;
};

// What the services of one server share.
struct DraCalls {
  OpenCalls open;
  DraAnswers* answers = nullptr;  // loop thread only; null once the server is gone
};

struct DraV1 {
  using Service = k8s::io::kubelet::pkg::apis::dra::v1::DRAPlugin::CallbackService;
  using PrepareRequest = k8s::io::kubelet::pkg::apis::dra::v1::NodePrepareResourcesRequest;
  using PrepareResponse = k8s::io::kubelet::pkg::apis::dra::v1::NodePrepareResourcesResponse;
  using UnprepareRequest = k8s::io::kubelet::pkg::apis::dra::v1::NodeUnprepareResourcesRequest;
  using UnprepareResponse = k8s::io::kubelet::pkg::apis::dra::v1::NodeUnprepareResourcesResponse;
};
struct DraV1beta1 {
  using Service = k8s::io::kubelet::pkg::apis::dra::v1beta1::DRAPlugin::CallbackService;
  using PrepareRequest = k8s::io::kubelet::pkg::apis::dra::v1beta1::NodePrepareResourcesRequest;
  using PrepareResponse = k8s::io::kubelet::pkg::apis::dra::v1beta1::NodePrepareResourcesResponse;
  using UnprepareRequest = k8s::io::kubelet::pkg::apis::dra::v1beta1::NodeUnprepareResourcesRequest;
  using UnprepareResponse = k8s::io::kubelet::pkg::apis::dra::v1beta1::NodeUnprepareResourcesResponse;
};

template <class Api>
class DraService final : public Api::Service {
 public:
  DraService(Loop& loop, std::shared_ptr<DraCalls> calls) : loop_(loop), calls_(std::move(calls)) {}

  grpc::ServerUnaryReactor* NodePrepareResources(grpc::CallbackServerContext* context,
                                                 const typename Api::PrepareRequest* request,
                                                 typename Api::PrepareResponse* response) override {
    return ask<Result<std::vector<DraDevice>>>(
        context, *request, &DraAnswers::prepare,
        [response](const std::string& uid, const Result<std::vector<DraDevice>>& answer) {
          auto& claim = (*response->mutable_claims())[uid];
          if (!answer) return claim.set_error(to_string(answer.error()));
          for (const DraDevice& each : *answer) {
            auto& device = *claim.add_devices();
            for (const auto& name : each.requests) device.add_request_names(name);
            device.set_pool_name(each.pool);
            device.set_device_name(each.device);
            for (const auto& id : each.cdi_ids) device.add_cdi_device_ids(id);
            if constexpr (requires { device.set_share_id(std::string()); })
              if (!each.share_id.empty()) device.set_share_id(each.share_id);
          }
        });
  }

  grpc::ServerUnaryReactor* NodeUnprepareResources(grpc::CallbackServerContext* context,
                                                   const typename Api::UnprepareRequest* request,
                                                   typename Api::UnprepareResponse* response) override {
    return ask<Status>(context, *request, &DraAnswers::unprepare,
                       [response](const std::string& uid, const Status& answer) {
                         auto& claim = (*response->mutable_claims())[uid];
                         if (!answer) claim.set_error(to_string(answer.error()));
                       });
  }

 private:
  template <class Answer, class Request, class Method, class Write>
  grpc::ServerUnaryReactor* ask(grpc::CallbackServerContext* context, const Request& request, Method method,
                                Write write) {
    struct Gathered {
      std::size_t left = 0;
      std::vector<std::pair<std::string, Answer>> answers;
    };
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const auto call = calls_->open.enter(reactor);
    if (call == 0) return reactor;
    std::vector<dra::ClaimName> claims;
    std::set<std::string> seen;  // the answer has each UID once
    for (const auto& claim : request.claims())
      if (seen.insert(claim.uid()).second) claims.push_back({claim.namespace_(), claim.name(), claim.uid()});
    const auto gathered = std::make_shared<Gathered>();
    gathered->left = claims.size() + 1;
    const auto finish = [calls = calls_, call, gathered, write] {
      if (--gathered->left > 0) return;
      calls->open.finish(call, [&] {
        for (const auto& [uid, answer] : gathered->answers) write(uid, answer);
      });
    };
    loop_.post([calls = calls_, claims = std::move(claims), method, gathered, finish] {
      for (const auto& claim : claims) {
        if (calls->answers == nullptr) return;  // all calls are finished
        (calls->answers->*method)(claim, [gathered, uid = claim.uid, finish](Answer answer) {
          gathered->answers.emplace_back(uid, std::move(answer));
          finish();
        });
      }
      finish();  // so that a call without claims, as a probe makes it, is answered too
    });
    return reactor;
  }

  Loop& loop_;
  std::shared_ptr<DraCalls> calls_;
};

}  // namespace tranche::host
