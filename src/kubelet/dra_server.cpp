#include "kubelet/dra_server.h"

#include <dra/v1/api.grpc.pb.h>
#include <dra_health/v1/api.grpc.pb.h>
#include <dra_health/v1alpha1/api.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/support/server_callback.h>
#include <pluginregistration/v1/api.grpc.pb.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/text.h"
#include "kubelet/loop_signal.h"
#include "kubelet/socket_server.h"
#include "kubelet/streams.h"
#include "os/files/files.h"
#include "os/files/watch.h"
#include "os/loop/loop.h"

namespace tranche::kubelet {
namespace {

namespace dra_api = k8s::io::kubelet::pkg::apis::dra::v1;

// kubelet takes the first of each kind that it knows.
constexpr const char* kServices[] = {"v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"};
constexpr Duration kStopWithin = std::chrono::milliseconds(500);
constexpr Duration kHealthEvery = std::chrono::seconds(60);
constexpr std::int64_t kHealthTimeoutSeconds = 180;  // without a message, as kubelet counts; its default is 30
constexpr std::size_t kLongestWhy = 1024;

// What the services of one server share: calls that are not answered yet. Each is finished once, by its last answer or
// by close(). Any thread.
class DraCalls {
 public:
  DraAnswers* answers = nullptr;  // loop thread only; null once the server is gone

  // A call that waits for so many answers. False: closed, and the call is finished.
  bool enter(grpc::ServerUnaryReactor* call, std::size_t missing) {
    {
      const std::lock_guard lock(mutex_);
      if (!closed_) return calls_.emplace(call, missing).second;
    }
    call->Finish({grpc::StatusCode::UNAVAILABLE, kStopping});
    return false;
  }

  // `write` puts the answer into the response, which exists until the call is finished; not called for one that is
  // finished.
  void answer(grpc::ServerUnaryReactor* call, const std::function<void()>& write) {
    {
      const std::lock_guard lock(mutex_);
      const auto at = calls_.find(call);
      if (at == calls_.end()) return;
      write();
      if (--at->second > 0) return;
      calls_.erase(at);
    }
    call->Finish(grpc::Status::OK);
  }

  void close() {
    decltype(calls_) left;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      left.swap(calls_);
    }
    for (const auto& each : left) each.first->Finish({grpc::StatusCode::UNAVAILABLE, kStopping});
  }

 private:
  static constexpr const char* kStopping = "the node agent is stopping; ask again";

  std::mutex mutex_;
  // With the answers that are missing; an address is one call's until it is finished.
  std::map<grpc::ServerUnaryReactor*, std::size_t> calls_;
  bool closed_ = false;
};

// kubelet's calls about claims, on their way from gRPC's threads to the loop and back. Methods in PascalCase are
// kubelet calling us.
class DraService final : public dra_api::DRAPlugin::CallbackService {
 public:
  DraService(os::Loop& loop, std::shared_ptr<DraCalls> calls) : loop_(loop), calls_(std::move(calls)) {}

  grpc::ServerUnaryReactor* NodePrepareResources(grpc::CallbackServerContext* context,
                                                 const dra_api::NodePrepareResourcesRequest* request,
                                                 dra_api::NodePrepareResourcesResponse* response) override {
    return ask<Result<std::vector<DraDevice>>>(
        context, *request, &DraAnswers::prepare,
        [response](const std::string& uid, const Result<std::vector<DraDevice>>& answer) {
          auto& claim = (*response->mutable_claims())[uid];
          if (!answer) return claim.set_error(to_string(answer.error()));
          for (const DraDevice& each : *answer) {
            auto& device = *claim.add_devices();
            device.add_request_names(each.request);
            device.set_pool_name(each.allocated.pool);
            device.set_device_name(each.allocated.device);
            for (const auto& id : each.cdi_ids) device.add_cdi_device_ids(id);
            if (!each.allocated.share_id.empty()) device.set_share_id(each.allocated.share_id);
          }
        });
  }

  grpc::ServerUnaryReactor* NodeUnprepareResources(grpc::CallbackServerContext* context,
                                                   const dra_api::NodeUnprepareResourcesRequest* request,
                                                   dra_api::NodeUnprepareResourcesResponse* response) override {
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
    grpc::ServerUnaryReactor* call = context->DefaultReactor();
    std::vector<dra::ClaimName> claims;
    std::set<std::string> seen;  // the answer has each UID once
    for (const auto& claim : request.claims())
      if (seen.insert(claim.uid()).second) claims.push_back({claim.namespace_(), claim.name(), claim.uid()});
    if (!calls_->enter(call, claims.size() + 1)) return call;
    loop_.post([calls = calls_, call, claims = std::move(claims), method, write] {
      for (const auto& claim : claims) {
        if (calls->answers == nullptr) return;  // all calls are finished
        (calls->answers->*method)(claim, [calls, call, write, uid = claim.uid](const Answer& answer) {
          calls->answer(call, [&] { write(uid, answer); });
        });
      }
      calls->answer(call, [] {});  // so that a call without claims, as a probe makes it, is answered too
    });
    return call;
  }

  os::Loop& loop_;
  std::shared_ptr<DraCalls> calls_;
};

// Of either version, which have the same fields and numbers.
template <class Service, class Request, class Response>
class HealthService final : public Service {
 public:
  grpc::ServerWriteReactor<Response>* NodeWatchResources(grpc::CallbackServerContext* context,
                                                         const Request*) override {
    return streams_.open(*context);
  }
  void offer(const std::string& pool, const std::vector<dra::Device>& devices, std::int64_t now) {
    auto message = std::make_shared<Response>();
    for (const auto& each : devices) {
      auto& device = *message->add_devices();
      device.mutable_device()->set_pool_name(pool);
      device.mutable_device()->set_device_name(each.name);
      device.set_health(static_cast<decltype(device.health())>(each.fault ? v1::UNHEALTHY : v1::HEALTHY));
      device.set_last_updated_time(now);
      device.set_health_check_timeout_seconds(kHealthTimeoutSeconds);
      if (each.fault) device.set_message(each.fault->why.substr(0, kLongestWhy));
    }
    streams_.offer(std::move(message));
  }
  void close() { streams_.close(); }

 private:
  Streams<Response> streams_{[] {}};
};

// It is the service for registration itself: GetInfo and NotifyRegistrationStatus, on gRPC's threads.
class KubeletDraServer final : public DraServer, public pluginregistration::Registration::CallbackService {
 public:
  KubeletDraServer(os::Loop& loop, const std::string& driver, const std::string& kubelet_dir,
                   const std::string& instance, DraAnswers& answers, std::function<void()> on_change)
      : loop_(loop),
        driver_(driver),
        directory_(kubelet_dir + "/plugins_registry"),
        name_(name_of(directory_, driver, instance)),
        calls_(std::make_shared<DraCalls>()),
        claims_(loop, calls_),
        looked_(loop, [this] { look(); }),
        changed_(loop, std::move(on_change)) {
    calls_->answers = &answers;
  }
  ~KubeletDraServer() override {
    calls_->answers = nullptr;
    calls_->close();
    health_v1_.close();
    health_v1alpha1_.close();
  }

  Status start() {
    remove_deserted_sockets(directory_, driver_ + "-", kSuffix);
    TRY(socket_, SocketServer::open({this, &claims_, &health_v1_, &health_v1alpha1_}, directory_, name_, loop_.now(),
                                    kStopWithin));
    set({.serving = true});
    // After the socket, so that it does not report this one.
    TRY(watch_, os::DirWatch::open(loop_, directory_, [this](const std::string& name) {
          if (name.empty() || name == name_) looked_.raise();
        }));
    return {};
  }

  void health(const std::string& pool, const std::vector<dra::Device>& devices) override {
    if (devices == devices_ && health_timer_.running()) return;
    pool_ = pool;
    devices_ = devices;
    send_health();
  }

  DraServerState state() const override {
    const std::lock_guard lock(mutex_);
    return state_;
  }

  // Without an endpoint, kubelet calls the socket that it found: where that is on the host is not known here.
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context, const pluginregistration::InfoRequest*,
                                    pluginregistration::PluginInfo* info) override {
    info->set_type("DRAPlugin");
    info->set_name(driver_);
    for (const char* service : kServices) info->add_supported_versions(service);
    return finished(context);
  }

  grpc::ServerUnaryReactor* NotifyRegistrationStatus(grpc::CallbackServerContext* context,
                                                     const pluginregistration::RegistrationStatus* status,
                                                     pluginregistration::RegistrationStatusResponse*) override {
    const bool registered = status->plugin_registered();
    set({.serving = true,
         .registered = registered,
         .problem = registered ? "" : "kubelet refused to register the driver: " + status->error()});
    return finished(context);
  }

 private:
  static constexpr const char* kSuffix = "reg.sock";
  static std::string name_of(const std::string& directory, const std::string& driver, const std::string& instance) {
    const std::string mark = instance.empty() ? "" : hex16(stable_hash(instance)) + "-";
    const bool fits = os::unix_address(fmt::format("{}/{}-{}{}", directory, driver, mark, kSuffix)).has_value();
    return fmt::format("{}-{}{}", driver, fits ? mark : "", kSuffix);
  }

  void send_health() {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(loop_.wall_now().time_since_epoch()).count();
    health_v1_.offer(pool_, devices_, now);
    health_v1alpha1_.offer(pool_, devices_, now);
    health_timer_.start(kHealthEvery, [this] { send_health(); });
  }

  void look() {
    using Place = SocketServer::Place;
    const Place place = socket_->look().place;
    if (place == Place::kOurs) return;
    if (place != Place::kTaken) return set({.gone = true, .problem = "its socket was deleted"});
    set({.problem = "another process serves " + name_ + " now; this one is not asked any more"});
  }

  static grpc::ServerUnaryReactor* finished(grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  void set(const DraServerState& next) {
    {
      const std::lock_guard lock(mutex_);
      if (state_ == next || state_.gone) return;
      state_ = next;
    }
    changed_.raise();
  }

  os::Loop& loop_;
  const std::string driver_, directory_;
  const std::string name_;  // of the socket
  std::shared_ptr<DraCalls> calls_;
  DraService claims_;
  HealthService<v1::DRAResourceHealth::CallbackService, v1::NodeWatchResourcesRequest, v1::NodeWatchResourcesResponse>
      health_v1_;
  HealthService<v1alpha1::DRAResourceHealth::CallbackService, v1alpha1::NodeWatchResourcesRequest,
                v1alpha1::NodeWatchResourcesResponse>
      health_v1alpha1_;
  std::string pool_;
  std::vector<dra::Device> devices_;
  os::Timer health_timer_{loop_};
  mutable std::mutex mutex_;
  DraServerState state_;
  LoopSignal looked_;
  LoopSignal changed_;
  std::unique_ptr<SocketServer> socket_;
  std::unique_ptr<os::DirWatch> watch_;
};

}  // namespace

Result<std::unique_ptr<DraServer>> DraServer::open(os::Loop& loop, const std::string& driver,
                                                   const std::string& kubelet_dir, const std::string& instance,
                                                   DraAnswers& answers, std::function<void()> on_change) {
  auto server = std::make_unique<KubeletDraServer>(loop, driver, kubelet_dir, instance, answers, std::move(on_change));
  TRY_STATUS(server->start());
  return server;
}

}  // namespace tranche::kubelet
